import os
import subprocess
from pathlib import Path

import pytest

from agent_sandbox.features.stack.init.facts import find_project, identity_in, look_at, machine
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.owners import owner_by, owner_of
from agent_sandbox.stack.limits import DEFAULT
from agent_sandbox.stack.recorded import Ide, Owner
from agent_sandbox.stack.workspace import Identity, Workspace


def problem(path: Path, environ: dict[str, str] | None = None) -> Problem:
    with pytest.raises(UserError) as raised:
        find_project(path, environ or {})
    (one,) = raised.value.problems
    return one


def look(project: Path, environ: dict[str, str] | None = None) -> Workspace:
    return look_at(project, title="x", ide=Ide.NONE, limits=DEFAULT, environ=environ or {})


def test_returns_the_real_path_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "link").symlink_to("app")
    assert find_project(tmp_path / "link", {}) == tmp_path / "app"


def test_rejects_a_missing_directory(tmp_path: Path) -> None:
    assert problem(tmp_path / "x") == Problem(where=str(tmp_path / "x"), what="no such directory")


def test_rejects_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    assert problem(tmp_path / "f").what == "not a directory"


def test_rejects_a_loop_of_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert problem(tmp_path / "a").what.startswith("cannot be used")


def test_rejects_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    project.mkdir()
    assert problem(project).what == "this path is not UTF-8"


@pytest.mark.parametrize("name", ["", "project", "a/.."])
def test_rejects_the_home_directory_and_all_directories_above_it(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home" / "me"
    (home / "project").mkdir(parents=True)
    (home / "a").mkdir()
    environ = {"HOME": str(home)}
    if name == "project":
        assert find_project(home / name, environ) == home / name
    else:
        assert (
            problem(home / name, environ).what
            == "contains your home directory: the agent would have access to all of it"
        )
        assert (
            problem(home.parent, environ).what
            == "contains your home directory: the agent would have access to all of it"
        )


@pytest.mark.parametrize("path", ["/", "//", "/.."])
def test_rejects_the_root_directory(path: str) -> None:
    assert problem(Path(path)).where == "/"


def test_accepts_unusual_directory_names(tmp_path: Path) -> None:
    for name in ("with space", "-dash", "it's", 'say "x"', "日本", "$HOME", "{{x}}", "a\nb", "#", "\x1b[31m"):
        (tmp_path / name).mkdir()
        assert find_project(tmp_path / name, {}) == tmp_path / name


def test_finds_the_users_existing_dotfiles_and_layers(tmp_path: Path) -> None:
    project, config = tmp_path / "p", tmp_path / "home" / ".config" / "agent-sandbox"
    project.mkdir()
    (config / "dotfiles").mkdir(parents=True)
    (config / "shell.d").write_text("no directory")
    workspace = look(project, {"HOME": str(tmp_path / "home")})
    assert (workspace.dotfiles, workspace.shell_d) == (str(config / "dotfiles"), None)
    assert workspace.layers == {"user": str(config)}


def test_finds_no_dotfiles_or_layers_without_a_home_directory(tmp_path: Path) -> None:
    workspace = look(tmp_path, {})
    assert (workspace.dotfiles, workspace.shell_d, workspace.layers) == (None, None, {})


@pytest.mark.parametrize(
    ("uid", "gid", "expected"),
    [(501, 20, Owner(uid=501, gid=20)), (0, 0, Owner()), (1234, 0, Owner(uid=1234, gid=1000)), (0, 5, Owner())],
)
def test_dev_gets_the_uid_and_gid_of_the_owner_but_never_those_of_root(uid: int, gid: int, expected: Owner) -> None:
    assert owner_by(os.stat_result((0o40755, 1, 1, 2, uid, gid, 0, 0, 0, 0))) == expected


def test_reads_the_owner_of_a_directory(tmp_path: Path) -> None:
    assert owner_of(tmp_path) == owner_by(tmp_path.stat())


def test_finds_a_project_for_a_user_that_the_system_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert find_project(tmp_path, {}) == tmp_path


def test_reports_the_memory_and_cpus_of_this_machine() -> None:
    has = machine()
    assert (has["memory"] > 1 << 26, has["cpus"] >= 1) == (True, True)


def test_reads_the_identity_only_from_the_users_git_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "init", "--quiet", work], check=True)
    subprocess.run(["git", "-C", work, "config", "user.name", "written by the agent"], check=True)
    monkeypatch.setenv("HOME", str(home))
    assert identity_in(work) == Identity()
    text = f'[user]\n\tname = Ann\n\temail = ann@example.com\n[includeIf "gitdir:{work}/"]\n\tpath = {home}/work\n'
    (home / ".gitconfig").write_text(text)
    (home / "work").write_text("[user]\n\temail = ann@example.org\n")
    assert identity_in(work) == Identity(name="Ann", email="ann@example.org")
    assert identity_in(home) == Identity(name="Ann", email="ann@example.com")
    (home / ".gitconfig").write_text('[user]\n\tname = "A\\nB"\n')
    assert identity_in(work) == Identity()


def test_the_identity_is_empty_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert identity_in(tmp_path) == Identity()
