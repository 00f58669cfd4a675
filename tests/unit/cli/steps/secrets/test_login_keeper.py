import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.secrets import login_keeper as subject
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.project.installed import read_project
from agent_sandbox.runtime.sources.login_document import HostLogin
from agent_sandbox.runtime.sources.recipes import Recipe, recipes_of

RECIPE = Recipe(name="claude.login", hosts=("api.anthropic.com",), source="login:claude")
NOW = 1_000_000.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "credentials.json"
    file.write_text("{}")
    return file


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Have logins that expire then, one for each attempt; -1 is a failure. The rest was not asked for."""
    ends: list[float | None] = []

    def give(_: Project, __: Recipe) -> HostLogin:
        end = ends.pop(0)
        if end == -1:
            raise UserError([Problem(where="", what="no")])
        return HostLogin(access="x", expires=end, plan="", document={})

    monkeypatch.setattr(subject, "give_login", give)
    return ends


@pytest.fixture
def look(project: Path, file: Path) -> Callable[[float], None]:
    one, it = subject.Watched(recipe=RECIPE, path=file), read_project(project)
    return lambda seconds: one.look(it, NOW + seconds)


def test_a_login_is_passed_on_again_only_when_its_file_changes(
    look: Callable[[float], None], given: list[float | None], file: Path
) -> None:
    given += [NOW + 9000, NOW + 9000, NOW + 9000]
    look(0)
    look(2)
    look(4)
    assert len(given) == 2
    file.write_text('{"rotated": 1}')
    look(6)
    assert len(given) == 1
    file.unlink()
    look(8)
    assert given == []


def test_a_token_that_is_about_to_expire_is_refreshed(look: Callable[[float], None], given: list[float | None]) -> None:
    given += [NOW + 1000, NOW + 9000]
    look(0)
    look(700)
    assert len(given) == 1
    look(762)
    look(764)
    assert given == []


def test_a_client_that_cannot_refresh_is_asked_once_a_minute(
    look: Callable[[float], None], given: list[float | None]
) -> None:
    given += [-1, -1, NOW + 9000]
    for seconds in range(0, 121, 2):
        look(float(seconds))
    assert given == []


def test_a_token_without_an_end_is_never_refreshed(look: Callable[[float], None], given: list[float | None]) -> None:
    given.append(None)
    look(0)
    look(1e9)
    assert given == []


def test_a_keeper_is_started_for_logins_alone_and_ends_with_its_parent(
    project: Path, monkeypatch: pytest.MonkeyPatch, given: list[float | None]
) -> None:
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(subject, "leave_running", started.append)
    subject.keep_logins(read_project(project))
    assert started == []
    recipes_of(project, os.environ).add(RECIPE)
    subject.keep_logins(read_project(project))
    assert started == [(sys.executable, "-P", "-m", subject.__name__, str(project), str(os.getpid()))]
    parents = iter([7, 7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    given.append(None)
    subject.main(str(project), "7")
    assert given == []
    recipes_of(project, os.environ).forget()
