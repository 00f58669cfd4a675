import os
from pathlib import Path

import pytest

from agent_sandbox.runtime.git import git_config
from agent_sandbox.runtime.git.git_config import NotSaidError, Patience, Settings, named
from repositories import repository


def said(project: Path, settings: str) -> set[tuple[str, str]]:
    """Return what these settings name, but for the file that they stand in."""
    (repository(project) / "config").write_text(settings)
    return set(named(project, project / ".git", project, Settings(Patience()))) - {("include", ".git/config")}


@pytest.mark.parametrize("key", ["hooksPath", "HOOKSPATH", "hookspath"])
def test_the_directory_of_hooks_is_named_in_any_case(tmp_path: Path, key: str) -> None:
    assert ("hooksPath", "tools/hooks") in said(tmp_path, f"[Core]\n\t{key} = tools/hooks\n")


def test_an_absolute_path_is_the_same_place(tmp_path: Path) -> None:
    assert said(tmp_path, f"[core]\n\thooksPath = {tmp_path}/tools/../hooks\n") == {("hooksPath", "hooks")}


@pytest.mark.parametrize("path", ["/etc/hooks", "~/hooks", "../../hooks", ".", ""])
def test_what_lies_outside_is_none_of_the_agents(tmp_path: Path, path: str) -> None:
    assert said(tmp_path / "project", f'[core]\n\thooksPath = "{path}"\n') == set()


def test_a_file_that_the_settings_include_counts_as_they_do(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = mine\n")
    expected = {("include", ".gitconfig"), ("hooksPath", "mine"), ("hooksPath", ".git/mine")}
    assert said(tmp_path, "[include]\n\tpath = ../.gitconfig\n") == expected


@pytest.mark.parametrize(
    "section",
    ["include", 'includeIf "gitdir:/elsewhere/"', 'includeIf "onbranch:x"', 'includeIf "hasconfig:remote.*.url:x"'],
)
@pytest.mark.parametrize("text", ["", None, "[core\n"])
def test_a_file_that_may_be_included_counts_whether_or_not_anything_is_in_it(
    tmp_path: Path, section: str, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "team.gitconfig").write_text(text)
    assert said(tmp_path, f"[{section}]\n\tpath = ../team.gitconfig\n") == {("include", "team.gitconfig")}


def test_what_a_file_names_that_is_included_under_a_condition_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('[includeIf "onbranch:x"]\n\tpath = b\n')
    (tmp_path / "b").write_text(f"[core]\n\thooksPath = mine\n[include]\n\tpath = {tmp_path}/a\n")
    expected = {("include", "a"), ("include", "b"), ("hooksPath", "mine"), ("hooksPath", ".git/mine")}
    assert said(tmp_path, '[includeIf "onbranch:x"]\n\tpath = ../a\n') == expected


def test_the_users_own_settings_may_lead_into_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "work" / "app"
    project.mkdir(parents=True)
    (tmp_path / ".gitconfig").write_text('[includeIf "gitdir:~/work/"]\n\tpath = ~/work/app/team\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    assert said(project, "[core]\n\thooksPath = ~/work/app/hooks\n") == {("include", "team"), ("hooksPath", "hooks")}


def test_names_that_are_not_utf8_come_back_as_they_are(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff")
    (repository(tmp_path) / "config").write_bytes(b"[core]\n\thooksPath = \xff\n")
    assert ("hooksPath", name) in named(tmp_path, tmp_path / ".git", tmp_path, Settings(Patience()))


@pytest.mark.parametrize("worktree", ["../sub", "{}/sub", "../link"])
def test_relative_hooks_lie_where_the_settings_put_the_files(tmp_path: Path, worktree: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    settings = f"[core]\n\tworktree = {worktree.format(tmp_path)}\n\thooksPath = tools\n"
    assert ("hooksPath", "sub/tools") in said(tmp_path, settings)


def test_relative_hooks_of_a_push_lie_in_the_repository_itself(tmp_path: Path) -> None:
    expected = {("hooksPath", ".husky/_"), ("hooksPath", ".git/.husky/_")}
    assert said(tmp_path, "[core]\n\thooksPath = .husky/_\n") == expected


def test_hooks_that_are_optional_are_hooks(tmp_path: Path) -> None:
    assert ("hooksPath", "tools") in said(tmp_path, '[core]\n\thooksPath = ":(optional)tools"\n')


def test_two_dots_behind_a_link_lead_out_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "a").symlink_to("b/c")
    expected = {("include", "team"), ("include", "b/team")}
    assert said(tmp_path, "[include]\n\tpath = ../a/../team\n") == expected


def test_a_worktree_has_the_settings_of_its_repository_and_its_own(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (git / "config").write_text("[core]\n\thooksPath = a\n")
    place = git / "worktrees" / "x"
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..\n")
    (place / "config.worktree").write_text("[core]\n\thooksPath = b\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: ../.git/worktrees/x\n")
    for repository_ in (place, tmp_path / "tree" / ".git"):
        found = {
            path for kind, path in named(tmp_path, repository_, tmp_path, Settings(Patience())) if kind == "hooksPath"
        }
        assert found >= {"a", "b"}


def test_a_repository_is_asked_about_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(Patience())
    before = settings.of(repository(tmp_path))
    monkeypatch.setattr(git_config, "capture", None)
    assert settings.of(tmp_path / ".git") == before


def test_settings_that_include_without_end_are_not_read(tmp_path: Path) -> None:
    git = repository(tmp_path)
    for number in range(150):
        (git / str(number)).write_text(f"[include]\n\tpath = {number + 1}\n")
    (git / "config").write_text("[include]\n\tpath = 0\n")
    with pytest.raises(NotSaidError):
        Settings(Patience()).of(git)


def test_invalid_git_config_yields_no_paths(tmp_path: Path) -> None:
    assert said(tmp_path, "[core\n") == set()


def test_without_git_nothing_acts_on_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert said(tmp_path, "[core]\n\thooksPath = hooks\n") == set()


@pytest.mark.parametrize("section", ["include", 'includeIf "onbranch:x"'])
@pytest.mark.parametrize("pipe", ["pipe", "config"])
def test_a_pipe_is_not_waited_at(tmp_path: Path, pipe: str, section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_config, "SECONDS", 600)  # more than a test may take
    git = repository(tmp_path)
    (git / "config").write_text(f"[{section}]\n\tpath = ../one\n")
    (tmp_path / "one").write_text("[include]\n\tpath = .git/pipe\n")
    (git / pipe).unlink(missing_ok=True)
    os.mkfifo(git / pipe)
    settings = Settings(Patience())
    for _ in range(2):  # a second question is not answered by nothing
        with pytest.raises(NotSaidError):
            list(named(tmp_path, git, tmp_path, settings))


def test_who_has_waited_long_enough_in_all_asks_no_more(tmp_path: Path) -> None:
    (repository(tmp_path) / "config").write_text("[core]\n\thooksPath = hooks\n")
    times = iter([0.0, 1.0, 7.0, 11.0])
    patience = Patience(clock=lambda: next(times))
    assert [patience.seconds, patience.seconds] == [5.0, 3.0]
    with pytest.raises(NotSaidError):
        list(named(tmp_path, tmp_path / ".git", tmp_path, Settings(patience)))
