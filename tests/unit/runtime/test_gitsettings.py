import os
from pathlib import Path

import pytest

from agent_sandbox.runtime.gitsettings import NotSaidError, Patience, named
from repositories import repository


def said(project: Path, settings: str) -> set[tuple[str, str]]:
    """Return what these settings name, but for the file that they stand in."""
    (repository(project) / "config").write_text(settings)
    return set(named(project, ".git", Patience())) - {("include", ".git/config")}


@pytest.mark.parametrize("key", ["hooksPath", "HOOKSPATH", "hookspath"])
def test_the_directory_of_hooks_is_named_in_any_case(tmp_path: Path, key: str) -> None:
    assert said(tmp_path, f"[Core]\n\t{key} = tools/hooks\n") == {("hooksPath", "tools/hooks")}


def test_an_absolute_path_is_the_same_place(tmp_path: Path) -> None:
    assert said(tmp_path, f"[core]\n\thooksPath = {tmp_path}/tools/../hooks\n") == {("hooksPath", "hooks")}


@pytest.mark.parametrize("path", ["/etc/hooks", "~/hooks", "../hooks", ".", ""])
def test_what_lies_outside_is_none_of_the_agents(tmp_path: Path, path: str) -> None:
    assert said(tmp_path / "project", f'[core]\n\thooksPath = "{path}"\n') == set()


def test_a_file_that_the_settings_include_counts_as_they_do(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\thooksPath = mine\n")
    expected = {("include", ".gitconfig"), ("hooksPath", "mine")}
    assert said(tmp_path, "[include]\n\tpath = ../.gitconfig\n") == expected


def test_settings_that_git_refuses_name_nothing(tmp_path: Path) -> None:
    assert said(tmp_path, "[core\n") == set()


def test_without_git_nothing_acts_on_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert said(tmp_path, "[core]\n\thooksPath = hooks\n") == set()


def test_a_pipe_is_not_waited_at_for_ever(tmp_path: Path) -> None:
    os.mkfifo(repository(tmp_path) / "pipe")
    (tmp_path / ".git" / "config").write_text("[include]\n\tpath = pipe\n")
    with pytest.raises(NotSaidError):
        list(named(tmp_path, ".git", Patience(0.05)))


def test_who_has_waited_long_enough_in_all_asks_no_more(tmp_path: Path) -> None:
    (repository(tmp_path) / "config").write_text("[core]\n\thooksPath = hooks\n")
    times = iter([0.0, 1.0, 7.0, 11.0])
    patience = Patience(clock=lambda: next(times))
    assert [patience.seconds, patience.seconds] == [5.0, 3.0]
    with pytest.raises(NotSaidError):
        list(named(tmp_path, ".git", patience))
