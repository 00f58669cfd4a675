from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.runtime import protected
from agent_sandbox.runtime.gitsettings import Patience
from agent_sandbox.runtime.protected import NOT_SAID, PINNED, candidates, find_protected, is_real, load_table, with_pins
from agent_sandbox.stack.workspace import Access, Protected
from repositories import bare, repository
from vectors import each

MADE = ["read .devcontainer", "read .env"]  # by `init`


def found(project: Path) -> list[str]:
    return [f"{one.access} {one.path}" for one in find_protected(project) if f"{one.access} {one.path}" not in MADE]


def make(project: Path, *paths: str) -> None:
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("")


def test_every_row_of_the_table_says_why() -> None:
    assert {row.path for rows in load_table().values() for row in rows if len(row.why) < 15} == set()


def test_no_row_stands_twice() -> None:
    for rows in load_table().values():
        assert len(rows) == len({row.path for row in rows})


def test_what_init_itself_writes_is_always_protected(tmp_path: Path) -> None:
    assert [f"{one.access} {one.path}" for one in find_protected(tmp_path)] == MADE


@each(("number", "row"), list(enumerate(row.path for row in load_table()["workspace"] if not row.always)))
def test_each_path_of_the_table_is_protected_where_it_is(tmp_path: Path, number: int, row: str) -> None:
    project = tmp_path / str(number)
    make(project, row.replace("*", "app"))
    pins = [f"pinned {parent}" for parent in Path(row).parents if parent.parts]
    assert found(project) == sorted([*pins, f"read {row.replace('*', 'app')}"], key=lambda said: said.split()[1])


def test_a_repository_can_be_written_to_but_not_moved_away(tmp_path: Path) -> None:
    repository(tmp_path)
    assert found(tmp_path) == ["pinned .git", "read .git/config", "read .git/hooks"]
    assert next(one.why for one in find_protected(tmp_path) if one.path == ".git") == PINNED


def test_hooks_that_are_not_there_are_made_since_git_would_have_made_them(tmp_path: Path) -> None:
    (repository(tmp_path) / "hooks").rmdir()
    assert "read .git/hooks" in found(tmp_path)


def test_a_bare_repository_among_the_files_gets_nothing_that_it_has_not(tmp_path: Path) -> None:
    make(bare(tmp_path / "fixtures" / "one.git"), "config")
    assert found(tmp_path) == ["read fixtures/one.git/config"]


def test_a_submodule_and_a_worktree(tmp_path: Path) -> None:
    git = repository(tmp_path)
    make(bare(git / "modules" / "libs" / "one"), "config")
    make(git / "worktrees" / "feature", "HEAD", "commondir", "gitdir", "index")
    make(tmp_path, "libs/one/.git")
    assert found(tmp_path) == [
        "pinned .git",
        "read .git/config",
        "read .git/hooks",
        "pinned .git/modules",
        "pinned .git/modules/libs",
        "pinned .git/modules/libs/one",
        "read .git/modules/libs/one/config",
        "read .git/modules/libs/one/hooks",
        "pinned .git/worktrees",
        "pinned .git/worktrees/feature",
        "read .git/worktrees/feature/commondir",
        "read .git/worktrees/feature/gitdir",
        "read libs/one/.git",
    ]


def test_a_project_that_is_a_worktree_has_a_file_that_leads_to_its_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere/.git/worktrees/one\n")
    assert found(tmp_path) == ["read .git"]


def test_a_repository_within_is_protected_where_it_lies(tmp_path: Path) -> None:
    repository(tmp_path / "vendor" / "one")
    assert found(tmp_path) == ["pinned vendor/one/.git", "read vendor/one/.git/config", "read vendor/one/.git/hooks"]


def test_what_gits_settings_name_is_protected(tmp_path: Path) -> None:
    git = repository(tmp_path)
    git.joinpath("config").write_text("[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../team.gitconfig\n")
    make(tmp_path, "tools/hooks/pre-commit", "tools/other")
    (tmp_path / "team.gitconfig").write_text("[user]\n\tname = x\n")
    assert found(tmp_path)[-2:] == ["read team.gitconfig", "read tools/hooks"]


def test_where_git_does_not_say_what_it_acts_on_nothing_is_taken_for_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected, "SECONDS_TO_PROTECT", 0.0)
    repository(tmp_path)
    with pytest.raises(UserError) as refused:
        find_protected(tmp_path)
    assert str(refused.value) == (
        ".git: git did not say in time what its settings name: what it runs from there could not be protected; "
        "see what `git config --list` waits for there: a pipe among the files that they include, perhaps"
    )
    told = [one.why for one in candidates(tmp_path, patience=Patience(0.0)) if one.path == ".git"]
    assert told == [NOT_SAID]


def test_a_link_is_never_handed_to_the_engine_but_is_known(tmp_path: Path) -> None:
    secret, project = tmp_path / "secret", tmp_path / "project"
    make(secret, "hooks/x", "settings.json")
    project.mkdir()
    for name in (".vscode", ".git", ".claude"):
        (project / name).symlink_to(secret)
    assert found(project) == []
    assert {".vscode", ".git", ".claude/settings.json"} <= {one.path for one in candidates(project)}


def test_hooks_that_are_a_link_are_not_made(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (git / "hooks").rmdir()
    (git / "hooks").symlink_to("/elsewhere")
    assert found(tmp_path) == ["pinned .git", "read .git/config"]


def test_a_name_that_can_not_be_printed_is_left_alone(tmp_path: Path) -> None:
    repository(tmp_path / "a\nb")
    assert found(tmp_path) == []


def test_what_lies_in_something_read_only_needs_no_mount_of_its_own() -> None:
    outer, inner = Protected(path=".vscode", why="x"), Protected(path=".vscode/mcp.json", why="y")
    assert with_pins([inner, outer]) == (outer,)


def test_directories_without_a_dot_are_not_pinned() -> None:
    one = Protected(path="libs/.config/x/y", why="x")
    pins = [Protected(path=path, access=Access.PINNED, why=PINNED) for path in ("libs/.config", "libs/.config/x")]
    assert with_pins([one, one]) == (*pins, one)


@pytest.mark.parametrize(("path", "expected"), [("d", True), ("d/f", True), ("gone", False), ("link/f", False)])
def test_only_files_and_directories_are_real(tmp_path: Path, path: str, *, expected: bool) -> None:
    make(tmp_path, "d/f")
    (tmp_path / "link").symlink_to("d")
    assert is_real(tmp_path, path) is expected
