"""images/agent/git: what git saves where the repository's settings are read-only, and settings that are neutral."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bash_harness import IMAGE, Shell


def git(
    home: Path, *argv: str, err: str = "", out: str = "", code: int = 0, protected: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the wrapper with a git that prints this."""
    real = home / "real"
    real.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(err)} >&2\nprintf %s {shlex.quote(out)}\nexit {code}\n")
    real.chmod(0o755)
    shell = Shell(home=home).within(AGENT_SANDBOX_GIT=str(real), AGENT_SANDBOX_GIT_SETTINGS="")
    return shell.run(IMAGE / "git", *argv, check=False, AGENT_SANDBOX_PROTECTED=protected)


IN_A_WORKTREE = "read .git\nread /repo/main/.git\npinned /repo/main/.git/objects"
LOCKED = "Unable to create '/repo/main/.git/packed-refs.lock': Read-only file system"
OF_A_WORKTREE = "a sandbox of a worktree cannot delete or rename branches and tags: do it on the host machine"


@pytest.mark.parametrize("argv", [("branch", "-d", "x"), ("tag", "-d", "x")])
def test_explains_that_a_worktree_cannot_delete_branches_and_tags(tmp_path: Path, argv: tuple[str, ...]) -> None:
    start = "error: could not delete reference refs/heads/x: "
    done = git(tmp_path, *argv, err=f"{start}{LOCKED}\n", code=1, protected=IN_A_WORKTREE)
    assert (done.returncode, done.stderr) == (1, f"{start}{OF_A_WORKTREE}\n")


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


@pytest.mark.parametrize("argv", [("log",), ("config", "x"), ("push",), ("-C",), ("commit", "-m", "push"), ()])
@pytest.mark.parametrize(
    "err", ["fatal: could not set 'x'\n", "warning: update of config-file failed\n", "no line end"]
)
def test_passes_all_other_output_through_unchanged(tmp_path: Path, argv: tuple[str, ...], err: str) -> None:
    done = git(tmp_path, *argv, err=err, code=128)
    assert (done.returncode, done.stdout, done.stderr) == (128, "", err)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git loads: compiled as in the image."""
    (line,) = re.findall(r"^RUN (gcc .*)", (IMAGE / "Dockerfile").read_text(), re.MULTILINE)
    made = tmp_path_factory.mktemp("library") / "git-settings.so"
    words = line.replace("/build/git-settings.so", str(made)).replace("/build/", f"{IMAGE}/").split()
    subprocess.run(words, check=True)
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository `w` with a remote, a submodule and a second branch, in a home directory."""
    made = """
        git config --global user.name x; git config --global user.email x@example.com
        git config --global protocol.file.allow always; git config --global init.defaultBranch main
        git init --quiet lib; git -C lib commit --quiet --allow-empty --message=x; git init --quiet w; cd w
        git commit --quiet --allow-empty --message=x; git branch two; git remote add origin https://example.com/x.git
        git update-ref refs/remotes/origin/main HEAD
        git submodule --quiet add "$HOME/lib"; git commit --quiet --message=lib
        git submodule --quiet deinit --all --force
        rm -r .git/modules .git/hooks/*
    """
    subprocess.run(["sh", "-ec", made], check=True, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    return tmp_path


@pytest.fixture
def inside(repository: Path, library: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in the repository as in the sandbox: its settings and hooks are read-only mounts."""
    (repository / "bin").mkdir()
    (repository / "bin" / "git").symlink_to(IMAGE / "git")
    mounts = (
        "for path in config hooks; do mount --bind .git/$path .git/$path; mount -o remount,bind,ro .git/$path; done"
    )

    def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        whole = f"cd w; {mounts}; PATH=$HOME/bin:$PATH; {script}"
        return Shell(home=repository).run(
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", whole),
            check=False,
            AGENT_SANDBOX_GIT="/usr/bin/git",
            AGENT_SANDBOX_GIT_SETTINGS=str(library),
            AGENT_SANDBOX_WORKSPACE=str(repository / "w"),
            GIT_CONFIG_COUNT="1",
            GIT_CONFIG_KEY_0="include.path",
            GIT_CONFIG_VALUE_0=str(IMAGE / "etc" / "gitconfig-command"),
            **environment,
        )

    return run


SAID = (
    "agent-sandbox: .git/config is read-only in the sandbox: this setting was saved for the sandbox alone; "
    "agent-sandbox review shows it on the host machine\n"
)
SAVING = (
    ("git remote add up https://git.example/old; git remote set-url up https://git.example/new; git remote get-url up",
     "https://git.example/new\n"),
    ("git remote rename origin up; git remote", "up\n"),
    ("git remote remove origin; git remote", ""),
    ("git branch -q -u origin/main two; git config branch.two.merge", "refs/heads/main\n"),
    ("git checkout -q -b tr --track main; git config branch.tr.merge", "refs/heads/main\n"),
    ("git config core.pager x; git config --unset core.pager; git config core.pager || echo unset", "unset\n"),
    ("git config core.hooksPath .husky; git rev-parse --git-path hooks", ".husky\n"),
    ("git sparse-checkout set --no-cone /lib; ls; git sparse-checkout disable", "lib\n"),
    ("git submodule --quiet update --init; git -C lib log --format=%s; git config submodule.lib.url", "x\n$HOME/lib\n"),
    ("git maintenance register; git config maintenance.auto", "false\n"),
    ("git branch --move two four; git config --local --get-regexp 'branch|four' || git branch --list four", "  four\n"),
    ("/usr/lib/git-core/git --version >/dev/null; git -c alias.x='!/usr/lib/git-core/git remote rm origin' x", ""),
)  # fmt: skip


@pytest.mark.parametrize(("script", "out"), SAVING)
def test_git_saves_settings_for_the_sandbox_alone(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]], script: str, out: str
) -> None:
    config = repository / "w" / ".git" / "config"
    before, mode = config.read_bytes(), config.stat().st_mode
    done = inside(script)
    assert (done.returncode, done.stdout) == (0, out.replace("$HOME", str(repository)))
    assert {line for line in done.stderr.splitlines() if "sandbox" in line} <= {SAID.strip()}
    assert not any(word in done.stderr for word in ("busy", "ead-only file", "could not", "--force"))
    assert (config.read_bytes(), config.stat().st_mode) == (before, mode)
    assert sorted(path.name for path in (repository / "w").rglob("*.lock")) == []


EVIL = """
    for setting in core.fsmonitor core.hooksPath core.pager core.editor alias.status diff.external filter.x.clean \\
      remote.origin.uploadpack submodule.lib.update core.sshCommand; do
        git config $setting "!$HOME/evil" || true
    done
    git config core.fsmonitor "$HOME/evil"; git config core.hooksPath "$HOME"; git config include.path "$HOME/included"
    git remote set-url origin "ext::$HOME/evil"; git config --worktree core.fsmonitor "$HOME/evil" || true
    git sparse-checkout set --no-cone '/*'; git config --worktree core.fsmonitor "$HOME/evil"
    echo '* filter=x' >.gitattributes
"""


def test_git_on_the_host_machine_uses_nothing_that_git_saved_in_the_sandbox(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ran = repository / "ran"
    (repository / "evil").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (repository / "evil").chmod(0o755)
    (repository / "pre-commit").symlink_to("evil")
    (repository / "included").write_text(f"[core]\n\tfsmonitor = {repository}/evil\n")
    list_all = ("git", "config", "--list", "--show-origin")
    before = subprocess.run(list_all, cwd=repository / "w", capture_output=True, check=True).stdout
    assert inside(f"{EVIL} git config core.hooksPath").stdout == f"{repository}\n"
    ran.unlink()
    (repository / "w" / ".git" / "agent-sandbox.config").rename(repository / "kept")
    (repository / "w" / ".git" / "agent-sandbox.config").write_text("broken [\n")
    for words in (
        "status",
        "add -A",
        "commit --allow-empty -m x",
        "diff HEAD^",
        "submodule update --init",
        "remote -v",
    ):
        subprocess.run(
            ["git", *words.split()], cwd=repository / "w", check=True, env={**os.environ, "HOME": str(repository)}
        )
    assert subprocess.run(list_all, cwd=repository / "w", capture_output=True, check=True).stdout.startswith(before)
    assert not ran.exists()
    # The program runs where its setting applies.
    (repository / "kept").rename(repository / "w" / ".git" / "agent-sandbox.config")
    inside("git status")
    assert ran.exists()


def test_a_command_that_changes_no_setting_keeps_none(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = inside("git config user.name >/dev/null; git branch -d -q two; git fetch -q ../lib; git status -s")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [*(repository / "w" / ".git").glob("agent-sandbox.*")] == []
    kept = "git config core.hooksPath x; git init --quiet; git config core.filemode; git config remote.origin.url"
    assert inside(kept).stdout == "true\nhttps://example.com/x.git\n"


def test_git_saves_settings_although_it_may_not_write_those_of_the_repository(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (repository / "w" / ".git" / "config").chmod(0o444)
    powerless = "setpriv --bounding-set=-all sh -ec 'git remote add up https://git.example/x; git remote'"
    assert inside(powerless).stdout == "origin\nup\n"


def test_says_once_per_command_what_was_saved(inside: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert inside("git remote add up https://git.example/x").stderr == SAID


def test_settings_changed_on_the_host_machine_are_merged_with_those_of_the_sandbox(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    inside("git remote add up https://git.example/x; git remote remove origin")
    subprocess.run(["git", "config", "core.abbrev", "9"], check=True, cwd=repository / "w")
    subprocess.run(["git", "remote", "add", "host", "https://git.example/h"], check=True, cwd=repository / "w")
    listed = inside("git remote; git config core.abbrev")
    assert (listed.stdout, listed.stderr) == ("host\nup\n9\n", "")


def test_a_worktrees_settings_are_kept_in_its_own_directory(repository: Path, library: Path) -> None:
    subprocess.run(["git", "worktree", "add", "--quiet", "../tree"], check=True, cwd=repository / "w")
    config = repository / "w" / ".git" / "config"
    before = config.read_bytes()
    script = (
        "cd w; mount --bind .git .git; mount -o remount,bind,ro .git; own=.git/worktrees/tree; mount --bind $own $own; "
        'mount -o remount,bind,rw $own; cd ../tree; git() { IMAGE/git "$@"; }; '
        "git remote add up https://git.example/x; git remote"
    )
    done = Shell(home=repository).run(
        *("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script.replace("IMAGE", str(IMAGE))),
        check=False,
        AGENT_SANDBOX_GIT="/usr/bin/git",
        AGENT_SANDBOX_GIT_SETTINGS=str(library),
        AGENT_SANDBOX_WORKSPACE=str(repository / "tree"),
    )
    assert (done.stdout, done.returncode, config.read_bytes()) == ("origin\nup\n", 0, before)
    assert "saved for the sandbox alone" in done.stderr


def test_git_lfs_says_in_one_line_that_its_hooks_are_not_installed(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = inside("git lfs install --local; git config --local filter.lfs.required")
    said = "hooks are read-only in the sandbox, so git-lfs installs none: run git lfs push before git push"
    assert (done.returncode, done.stdout) == (0, "Git LFS initialized.\ntrue\n")
    assert done.stderr == f"agent-sandbox: {said}\n"
    (repository / "w" / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\ngit-lfs\n")
    assert "agent-sandbox: hooks" not in inside("git lfs install --local").stderr


LOG = "script -qec 'git log --format=%s -1' /dev/null </dev/null"
EDIT = "EDITOR='sed -i 1ix' git commit -q --allow-empty; git log -1 --format=%s"
SMUDGE = "echo '* filter=z' >.gitattributes; echo y >y; git add y; rm y; git checkout y; cat y"
OWN = (
    ("core.pager", "delta", LOG, "lib"),
    ("pager.log", "NO=1 delta --x", LOG, "lib"),
    ("diff.external", "difft", "echo y >y; git add -N y; git diff y", "+y"),
    ("difftool.x.cmd", '"/opt/a tool/x" "$LOCAL"', "echo y >y; git add -N y; git difftool -y -t x y", "+y"),
    ("core.editor", "~/none/nvim --wait", EDIT, "x"),
    ("commit.template", "~/.gitmessage", EDIT, "x"),
    ("http.sslBackend", "schannel", "git ls-remote https://127.0.0.1:9/x 2>&1 || :", "Failed to connect"),
    ("filter.z.smudge", "none-smudge %f", SMUDGE, "y"),
)  # fmt: skip


@pytest.mark.parametrize("row", OWN)
def test_own_settings_that_name_what_only_the_host_machine_has_are_neutral(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]], row: tuple[str, str, str, str]
) -> None:
    key, value, script, out = row
    subprocess.run(["git", "config", "--file", repository / "own", key, value], check=True)
    # A name and an e-mail address are not what this is about.
    subprocess.run(["sh", "-c", "cat .gitconfig >>own"], check=True, cwd=repository)
    done = inside(script, GIT_CONFIG_GLOBAL=str(repository / "own"))
    assert out in done.stdout
    assert (done.returncode, done.stderr.replace("Updated 1 path from the index\n", "")) == (0, "")


def test_own_settings_that_name_what_is_there_apply(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    with (repository / ".gitconfig").open("a") as config:
        config.write('[core]\n\tpager = sed s/^/own:/\n\teditor = "touch" "$HOME/seen"\n')
    done = inside("script -qec 'git log --format=%s -1' /dev/null </dev/null; git commit --allow-empty -m mine -q -e")
    assert (done.stdout.replace("\r", ""), (repository / "seen").exists()) == ("own:lib\n", True)
    # Once the program is there no more, the next change of the settings shows it.
    subprocess.run(["git", "config", "--file", repository / ".gitconfig", "core.pager", "none"], check=True)
    assert "mine" in inside("script -qec 'git log --format=%s -1' /dev/null </dev/null").stdout


def test_a_file_is_not_added_without_a_filter_that_is_required(
    repository: Path, inside: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    with (repository / ".gitconfig").open("a") as config:
        config.write('[filter "z"]\n\tclean = none-clean\n\tsmudge = none-smudge\n\trequired = true\n')
    done = inside("echo '* filter=z' >.git/info/attributes; echo y >y; git add y; echo $?")
    assert (done.returncode, "clean filter 'z' failed" in done.stderr) == (128, True)


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
