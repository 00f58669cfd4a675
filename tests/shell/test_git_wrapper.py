"""images/agent/git: its messages if git cannot save a setting, tested with a fake git."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from bash_harness import IMAGE, Shell

if TYPE_CHECKING:
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
    subprocess.run(["git", "init", "--quiet", home], check=True)
    where = f'case $1 in rev-parse | symbolic-ref | show-ref) exec git -C {home} "$@" ;; esac\n'
    real.write_text(f"#!/bin/sh\n{where}{says}exit {code}\n")
    real.chmod(0o755)
    return Shell(home=home).run(
        IMAGE / "git", *argv, check=False, AGENT_SANDBOX_GIT=str(real), AGENT_SANDBOX_PROTECTED=protected
    )


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        (("config", "core.pager", "x"), f"{BUSY}\n"),
        (("remote", "set-url", "x", "y"), f"{BUSY}\nfatal: could not set 'remote.x.url' to 'y'\n"),
        (("remote", "remove", "x"), f"{BUSY}\nfatal: could not unset 'branch.y.remote'\n"),
        (("branch", "-d", "x"), f"{BUSY}\nwarning: Update of config-file failed\n"),
        (("-C", "push", "-c", "a.b=c", "push", "origin"), f"{BUSY}\n{BUSY}\n"),
        (("checkout", "-b", "x"), f"{BUSY}\nerror: unable to write upstream branch configuration\n"),
    ],
)
def test_replaces_gits_errors_by_one_line_if_a_setting_was_not_saved(
    tmp_path: Path, argv: tuple[str, ...], err: str
) -> None:
    done = git(tmp_path, *argv, err=err, out="as git says it\n", code=4)
    assert (done.returncode, done.stdout, done.stderr) == (4, "as git says it\n", f"{SAID}\n")
    assert (tmp_path / "called").read_text() == f"{' '.join(argv)}\n"


LOCKED = "Unable to create '/repo/main/.git/packed-refs.lock': Read-only file system"
OF_A_WORKTREE = "a sandbox of a worktree cannot delete or rename branches and tags: do it on the host machine"


@pytest.mark.parametrize("argv", [("branch", "-d", "x"), ("tag", "-d", "x")])
def test_explains_that_a_worktree_cannot_delete_branches_and_tags(tmp_path: Path, argv: tuple[str, ...]) -> None:
    start = "error: could not delete reference refs/heads/x: "
    done = git(tmp_path, *argv, err=f"{start}{LOCKED}\n", code=1)
    assert (done.returncode, done.stderr) == (1, f"{start}{OF_A_WORKTREE}\n")


IN_A_WORKTREE = "read .git\nread /repo/main/.git\npinned /repo/main/.git/objects"


@pytest.mark.parametrize("verb", ["commit", "merge", "rebase", "pull", "checkout"])
def test_hides_an_unneeded_lock_error_in_a_worktree(tmp_path: Path, verb: str) -> None:
    err = f"error: {LOCKED}\nwarning: as git says it\n"
    done = git(tmp_path, "-C", "x", verb, err=err, out="done\n", protected=IN_A_WORKTREE)
    assert (done.stdout, done.stderr) == ("done\n", "warning: as git says it\n")


@pytest.mark.parametrize(
    ("verb", "protected"), [("update-ref", IN_A_WORKTREE), ("bisect", IN_A_WORKTREE), ("commit", "read .git")]
)
def test_reports_lock_errors_of_other_commands_and_outside_a_worktree(
    tmp_path: Path, verb: str, protected: str
) -> None:
    assert git(tmp_path, verb, err=f"error: {LOCKED}\n", code=1, protected=protected).stderr == f"error: {LOCKED}\n"


def test_reports_unsaved_settings_of_a_worktrees_repository(tmp_path: Path) -> None:
    err = "error: could not lock config file /repo/main/.git/config: Read-only file system\n"
    done = git(tmp_path, "config", "core.pager", "x", err=err, code=255)
    assert (done.returncode, done.stderr) == (255, SAID.replace(".git/config", "/repo/main/.git/config") + "\n")


TRACKS = "branch 'x' set up to track 'origin/x'.\n"


@pytest.mark.parametrize("argv", [("push", "-u", "origin", "x"), ("-C", "y", "push", "--set-upstream", "origin", "x")])
def test_a_push_does_not_claim_an_upstream_that_was_not_saved(tmp_path: Path, argv: tuple[str, ...]) -> None:
    done = git(tmp_path, *argv, err=f"To x\n{BUSY}\n{BUSY}\n", out=TRACKS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"To x\n{SAID}\n")


def test_a_push_reports_an_upstream_that_was_saved(tmp_path: Path) -> None:
    done = git(tmp_path, "push", "-u", "origin", "x", err="To x\n", out=TRACKS, code=1)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"To x\n{TRACKS}")


@pytest.mark.parametrize("argv", [("log",), ("config", "x"), ("push",), ("-C",), ("commit", "-m", "push"), ()])
@pytest.mark.parametrize(
    "err", ["fatal: could not set 'x'\n", "warning: update of config-file failed\n", "no line end"]
)
def test_passes_all_other_output_through_unchanged(tmp_path: Path, argv: tuple[str, ...], err: str) -> None:
    done = git(tmp_path, *argv, err=err, code=128)
    assert (done.returncode, done.stdout, done.stderr) == (128, "", err)


@pytest.fixture
def repository(tmp_path: Path) -> Shell:
    """A repository with a commit and a remote, and a git that cannot save its settings."""
    made = (
        f"git init --quiet --initial-branch=main {tmp_path}/w; cd {tmp_path}/w; "
        "git -c user.name=x -c user.email=x@example.com commit --quiet --allow-empty --message=x; git branch two; "
        "git remote add origin https://example.com/x.git; git update-ref refs/remotes/origin/main HEAD"
    )
    subprocess.run(["sh", "-e", "-c", made], check=True)
    saves = "config\\ [a-z]*\\ * | config\\ --add* | remote\\ add* | push* | branch\\ -*"
    reads = "*--get* | *--file* | *--list*"
    fails = f"printf '%s\\n' {shlex.quote(BUSY)} >&2; exit 4"
    real = tmp_path / "real"
    real.write_text(f'#!/bin/sh\ncase "$*" in {reads}) ;; {saves}) {fails} ;; esac\nexec git "$@"\n')
    real.chmod(0o755)
    system = tmp_path / "system"
    system.write_text(f"[include]\npath = {tmp_path}/w/.git/agent-sandbox.settings\n")
    return Shell(home=tmp_path)


def ask(shell: Shell, *argv: str, system: str = "system") -> subprocess.CompletedProcess[str]:
    home = shell.home
    command = shlex.join((str(IMAGE / "git"), *argv))
    system = str(home / system)
    return shell.run(
        *("sh", "-c", f"cd {home}/w && exec {command}"),
        check=False, AGENT_SANDBOX_GIT=str(home / "real"), GIT_CONFIG_SYSTEM=system, HOME=str(home),
    )  # fmt: skip


OFFERED = "agent-sandbox review offers it to the host machine"
ALONE = "this setting was saved for the sandbox alone"
FOR_THE_SANDBOX = f"agent-sandbox: .git/config is read-only in the sandbox: {ALONE}; {OFFERED}\n"
TRACKS_MAIN = ["branch.main.remote=origin", "branch.main.merge=refs/heads/main"]


@pytest.mark.parametrize(
    ("command", "code", "kept"),
    [
        ("config user.name Bot", 0, ["user.name=Bot"]),
        ("config --add branch.main.description -x", 0, ["branch.main.description=-x"]),
        (
            "remote add fork git@example.com:me/x.git",
            0,
            ["remote.fork.url=git@example.com:me/x.git", "remote.fork.fetch=+refs/heads/*:refs/remotes/fork/*"],
        ),
        ("branch -u origin/main", 0, TRACKS_MAIN),
        ("branch --set-upstream-to=origin/main", 0, TRACKS_MAIN),
        # The real git succeeds if it pushed.
        ("push -u origin", 4, TRACKS_MAIN),
        ("push -q --set-upstream origin HEAD", 4, TRACKS_MAIN),
        ("push -u --force-with-lease origin +main:refs/heads/main", 4, TRACKS_MAIN),
        ("push -u origin two:three", 4, ["branch.two.remote=origin", "branch.two.merge=refs/heads/three"]),
        ("push -u origin HEAD:refs/heads/x/y", 4, ["branch.main.remote=origin", "branch.main.merge=refs/heads/x/y"]),
    ],
)
def test_saves_and_uses_settings_that_review_can_offer(
    repository: Shell, command: str, code: int, kept: list[str]
) -> None:
    done = ask(repository, *command.split())
    file = repository.home / "w" / ".git" / "agent-sandbox.settings"
    assert (done.returncode, done.stdout, done.stderr) == (code, "", FOR_THE_SANDBOX)
    listed = subprocess.run(["git", "config", "--file", file, "--list"], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == kept
    assert ask(repository, "config", "--get", kept[0].partition("=")[0]).stdout == f"{kept[0].partition('=')[2]}\n"


@pytest.mark.parametrize(
    "command",
    [
        "config core.pager evil",
        "config remote.origin.url https://evil.test",
        "config remote.origin.pushurl https://evil.test",
        "config --global user.name x",
        "config user.name a b",
        "remote add --fetch fork https://example.com/x.git",
        "push -u origin :main",
        "push -u origin gone",
        "push -u origin tag v1",
        "push -u --repo x origin",
        "push -u",
        "branch --move two four",
        "branch -u main",
        "-c a.b=c config user.name x",
    ],
)
def test_saves_no_other_settings(repository: Shell, command: str) -> None:
    done = ask(repository, *command.split())
    assert not (repository.home / "w" / ".git" / "agent-sandbox.settings").exists()
    assert (done.returncode, done.stderr.replace(SAID, "")) in {(4, "\n"), (0, "")}


def test_reports_a_stored_setting_as_not_saved_if_git_does_not_read_it(repository: Shell) -> None:
    done = ask(repository, "config", "user.name", "Bot", system="none")
    assert (done.returncode, done.stderr) == (4, FOR_THE_SANDBOX.replace(ALONE, "this setting was not saved"))
    assert (repository.home / "w" / ".git" / "agent-sandbox.settings").exists()


def test_writes_the_git_identity_of_the_host_machine(tmp_path: Path) -> None:
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
