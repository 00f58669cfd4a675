import os
from pathlib import Path

import pytest

from agent_sandbox.host.git import git_config
from agent_sandbox.host.git.git_config import NotSaidError, Patience, Settings, named
from repositories import repository


def said(project: Path, settings: str) -> set[tuple[str, str]]:
    """Return what these settings name, except for their own file."""
    (repository(project) / "config").write_text(settings)
    return set(named(project, project / ".git", project, Settings(Patience()))) - {("include", ".git/config")}


@pytest.mark.parametrize("key", ["hooksPath", "HOOKSPATH", "hookspath"])
def test_finds_the_hooks_directory_in_any_case_of_the_key(tmp_path: Path, key: str) -> None:
    assert ("hooksPath", "tools/hooks") in said(tmp_path, f"[Core]\n\t{key} = tools/hooks\n")


def test_converts_absolute_paths_to_paths_in_the_project(tmp_path: Path) -> None:
    assert said(tmp_path, f"[core]\n\thooksPath = {tmp_path}/tools/../hooks\n") == {("hooksPath", "hooks")}


@pytest.mark.parametrize("path", ["/etc/hooks", "~/hooks", "../../hooks", ".", ""])
def test_ignores_hooks_paths_that_are_not_below_the_project(tmp_path: Path, path: str) -> None:
    assert said(tmp_path / "project", f'[core]\n\thooksPath = "{path}"\n') == set()


def test_reads_files_that_the_settings_include(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = mine\n")
    expected = {("include", ".gitconfig"), ("hooksPath", "mine"), ("hooksPath", ".git/mine")}
    assert said(tmp_path, "[include]\n\tpath = ../.gitconfig\n") == expected


@pytest.mark.parametrize(
    "section",
    ["include", 'includeIf "gitdir:/elsewhere/"', 'includeIf "onbranch:x"', 'includeIf "hasconfig:remote.*.url:x"'],
)
@pytest.mark.parametrize("text", ["", None, "[core\n"])
def test_names_included_files_that_are_empty_missing_or_invalid(tmp_path: Path, section: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / "team.gitconfig").write_text(text)
    assert said(tmp_path, f"[{section}]\n\tpath = ../team.gitconfig\n") == {("include", "team.gitconfig")}


def test_reads_conditionally_included_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('[includeIf "onbranch:x"]\n\tpath = b\n')
    (tmp_path / "b").write_text(f"[core]\n\thooksPath = mine\n[include]\n\tpath = {tmp_path}/a\n")
    expected = {("include", "a"), ("include", "b"), ("hooksPath", "mine"), ("hooksPath", ".git/mine")}
    assert said(tmp_path, '[includeIf "onbranch:x"]\n\tpath = ../a\n') == expected


def test_follows_paths_of_the_users_settings_into_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "work" / "app"
    project.mkdir(parents=True)
    (tmp_path / ".gitconfig").write_text('[includeIf "gitdir:~/work/"]\n\tpath = ~/work/app/team\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    assert said(project, "[core]\n\thooksPath = ~/work/app/hooks\n") == {("include", "team"), ("hooksPath", "hooks")}


def test_keeps_paths_that_are_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff")
    (repository(tmp_path) / "config").write_bytes(b"[core]\n\thooksPath = \xff\n")
    assert ("hooksPath", name) in named(tmp_path, tmp_path / ".git", tmp_path, Settings(Patience()))


@pytest.mark.parametrize("worktree", ["../sub", "{}/sub", "../link"])
def test_resolves_a_relative_hooks_path_against_core_worktree(tmp_path: Path, worktree: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    settings = f"[core]\n\tworktree = {worktree.format(tmp_path)}\n\thooksPath = tools\n"
    assert ("hooksPath", "sub/tools") in said(tmp_path, settings)


def test_resolves_a_relative_hooks_path_against_worktree_and_git_directory(tmp_path: Path) -> None:
    expected = {("hooksPath", ".husky/_"), ("hooksPath", ".git/.husky/_")}
    assert said(tmp_path, "[core]\n\thooksPath = .husky/_\n") == expected


def test_finds_an_optional_hooks_directory(tmp_path: Path) -> None:
    assert ("hooksPath", "tools") in said(tmp_path, '[core]\n\thooksPath = ":(optional)tools"\n')


def test_names_both_paths_that_dot_dot_after_a_symbolic_link_can_mean(tmp_path: Path) -> None:
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


def test_reads_the_settings_of_a_repository_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(Patience())
    before = settings.of(repository(tmp_path))
    monkeypatch.setattr(git_config, "capture", None)
    assert settings.of(tmp_path / ".git") == before


def test_gives_up_on_settings_with_too_many_nested_includes(tmp_path: Path) -> None:
    git = repository(tmp_path)
    for number in range(150):
        (git / str(number)).write_text(f"[include]\n\tpath = {number + 1}\n")
    (git / "config").write_text("[include]\n\tpath = 0\n")
    with pytest.raises(NotSaidError):
        Settings(Patience()).of(git)


def test_invalid_git_config_yields_no_paths(tmp_path: Path) -> None:
    assert said(tmp_path, "[core\n") == set()


def test_without_git_names_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert said(tmp_path, "[core]\n\thooksPath = hooks\n") == set()


@pytest.mark.parametrize("section", ["include", 'includeIf "onbranch:x"'])
@pytest.mark.parametrize("pipe", ["pipe", "config"])
def test_does_not_wait_for_named_pipes(
    tmp_path: Path, pipe: str, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_config, "SECONDS", 600)  # longer than a test can take
    git = repository(tmp_path)
    (git / "config").write_text(f"[{section}]\n\tpath = ../one\n")
    (tmp_path / "one").write_text("[include]\n\tpath = .git/pipe\n")
    (git / pipe).unlink(missing_ok=True)
    os.mkfifo(git / pipe)
    settings = Settings(Patience())
    for _ in range(2):  # the second call raises, too
        with pytest.raises(NotSaidError):
            list(named(tmp_path, git, tmp_path, settings))


def test_stops_asking_git_after_the_total_time_limit(tmp_path: Path) -> None:
    (repository(tmp_path) / "config").write_text("[core]\n\thooksPath = hooks\n")
    times = iter([0.0, 1.0, 7.0, 11.0])
    patience = Patience(clock=lambda: next(times))
    assert [patience.seconds, patience.seconds] == [5.0, 3.0]
    with pytest.raises(NotSaidError):
        list(named(tmp_path, tmp_path / ".git", tmp_path, Settings(patience)))
