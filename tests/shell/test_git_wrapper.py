"""images/agent/git: what it says where git cannot save a setting, with a stand-in for git."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from bash_harness import IMAGE, Shell

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

BUSY = "error: could not write config file .git/config: Device or resource busy"
SAID = (
    "agent-sandbox: .git/config is read-only in the sandbox: this setting was not saved; "
    "use git config --global, or set it on the host machine"
)


def git(
    home: Path, *argv: str, err: str = "", out: str = "", code: int = 0, protected: str = ""
) -> subprocess.CompletedProcess[str]:
    real = home / "real"
    says = f'printf %s {shlex.quote(err)} >&2\nprintf %s {shlex.quote(out)}\necho "$@" >{home}/called\n'
    real.write_text(f"#!/bin/sh\n{says}exit {code}\n")
    real.chmod(0o755)
    return Shell(home=home).run(
        IMAGE / "git", *argv, check=False, AGENT_SANDBOX_GIT=str(real), AGENT_SANDBOX_PROTECTED=protected
    )


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        (("config", "user.name", "x"), f"{BUSY}\n"),
        (("remote", "add", "x", "y"), f"{BUSY}\nfatal: could not set 'remote.x.url' to 'y'\n"),
        (("remote", "remove", "x"), f"{BUSY}\nfatal: could not unset 'branch.y.remote'\n"),
        (("branch", "-d", "x"), f"{BUSY}\nwarning: Update of config-file failed\n"),
        (("-C", "push", "-c", "a.b=c", "push", "origin"), f"{BUSY}\n{BUSY}\n"),
        (("checkout", "-b", "x"), f"{BUSY}\nerror: unable to write upstream branch configuration\n"),
    ],
)
def test_one_line_says_that_a_setting_was_not_saved(tmp_path: Path, argv: tuple[str, ...], err: str) -> None:
    done = git(tmp_path, *argv, err=err, out="as git says it\n", code=4)
    assert (done.returncode, done.stdout, done.stderr) == (4, "as git says it\n", f"{SAID}\n")
    assert (tmp_path / "called").read_text() == f"{' '.join(argv)}\n"


LOCKED = "Unable to create '/repo/main/.git/packed-refs.lock': Read-only file system"
OF_A_WORKTREE = "a sandbox of a worktree cannot delete or rename branches and tags: do it on the host machine"


@pytest.mark.parametrize("argv", [("branch", "-d", "x"), ("tag", "-d", "x")])
def test_what_a_worktree_cannot_do_is_named(tmp_path: Path, argv: tuple[str, ...]) -> None:
    start = "error: could not delete reference refs/heads/x: "
    done = git(tmp_path, *argv, err=f"{start}{LOCKED}\n", code=1)
    assert (done.returncode, done.stderr) == (1, f"{start}{OF_A_WORKTREE}\n")


IN_A_WORKTREE = "read .git\nread /repo/main/.git\npinned /repo/main/.git/objects"


@pytest.mark.parametrize("verb", ["commit", "merge", "rebase", "pull", "checkout"])
def test_a_lock_that_git_did_not_need_is_not_reported_in_a_worktree(tmp_path: Path, verb: str) -> None:
    err = f"error: {LOCKED}\nwarning: as git says it\n"
    done = git(tmp_path, "-C", "x", verb, err=err, out="done\n", protected=IN_A_WORKTREE)
    assert (done.stdout, done.stderr) == ("done\n", "warning: as git says it\n")


@pytest.mark.parametrize(
    ("verb", "protected"), [("update-ref", IN_A_WORKTREE), ("bisect", IN_A_WORKTREE), ("commit", "read .git")]
)
def test_a_lock_is_reported_where_git_says_nothing_else(tmp_path: Path, verb: str, protected: str) -> None:
    assert git(tmp_path, verb, err=f"error: {LOCKED}\n", code=1, protected=protected).stderr == f"error: {LOCKED}\n"


def test_settings_of_a_worktrees_repository_are_not_saved_either(tmp_path: Path) -> None:
    err = "error: could not lock config file /repo/main/.git/config: Read-only file system\n"
    done = git(tmp_path, "config", "user.name", "x", err=err, code=255)
    assert (done.returncode, done.stderr) == (255, SAID.replace(".git/config", "/repo/main/.git/config") + "\n")


TRACKS = "branch 'x' set up to track 'origin/x'.\n"


@pytest.mark.parametrize("argv", [("push", "-u", "origin", "x"), ("-C", "y", "push", "--set-upstream", "origin", "x")])
def test_a_push_does_not_claim_an_upstream_that_was_not_saved(tmp_path: Path, argv: tuple[str, ...]) -> None:
    done = git(tmp_path, *argv, err=f"To x\n{BUSY}\n{BUSY}\n", out=TRACKS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"To x\n{SAID}\n")


def test_a_push_tells_of_an_upstream_that_was_saved(tmp_path: Path) -> None:
    done = git(tmp_path, "push", "-u", "origin", "x", err="To x\n", out=TRACKS, code=1)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"To x\n{TRACKS}")


@pytest.mark.parametrize("argv", [("log",), ("config", "x"), ("push",), ("-C",), ("commit", "-m", "push"), ()])
@pytest.mark.parametrize(
    "err", ["fatal: could not set 'x'\n", "warning: update of config-file failed\n", "no line end"]
)
def test_all_else_is_as_git_says_it(tmp_path: Path, argv: tuple[str, ...], err: str) -> None:
    done = git(tmp_path, *argv, err=err, code=128)
    assert (done.returncode, done.stdout, done.stderr) == (128, "", err)


def test_the_users_name_comes_from_the_host_machine(tmp_path: Path) -> None:
    shell = Shell(home=tmp_path)
    file = tmp_path / ".local" / "state" / "agent-sandbox" / "git-identity"
    read = f"git config --file {file} --list"
    who = shell.within(AGENT_SANDBOX_GIT_NAME='-Änne $HOME "x"', AGENT_SANDBOX_GIT_EMAIL="a@example.com")
    done = who("identity", f"write_identity; {read}")
    assert done.stdout == 'user.name=-Änne $HOME "x"\nuser.email=a@example.com\n'
    shell("identity", "write_identity")
    assert not file.exists()
    file.mkdir()
    file.with_name("git-identity.lock").touch()
    assert who("identity", f"write_identity; {read}").stdout == done.stdout
