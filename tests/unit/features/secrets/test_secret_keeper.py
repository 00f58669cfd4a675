import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.features.secrets import secret_keeper as subject
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.project import Project
from fake_docker import FakeDocker
from fake_stack import with_containers

RECIPE = Recipe(name="claude.login", hosts=("api.anthropic.com",), source="login:claude")
NOW = 1_000_000.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "credentials.json"
    file.write_text("{}")
    return file


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Have values that expire after so many seconds, one for each attempt; -1 is a failure. Return those to come."""
    ends: list[float | None] = []

    def give(_: Project, __: Recipe, *, keeps: bool) -> float | None:
        assert keeps
        end = ends.pop(0)
        if end == -1:
            raise UserError([Problem(where="", what="no")])
        return end

    monkeypatch.setattr(subject, "give", give)
    return ends


@pytest.fixture
def look(project: Path, file: Path) -> Callable[[float], None]:
    one, it = subject.Watched(recipe=RECIPE, path=file), read_project(project)
    return lambda seconds: one.look(it, NOW + seconds)


def test_a_login_is_passed_on_again_only_when_its_file_changes(
    look: Callable[[float], None], given: list[float | None], file: Path
) -> None:
    given += [9000, 9000, 9000]
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
    given += [1000, 9000]
    look(0)
    look(700)
    assert len(given) == 1
    look(762)
    look(764)
    assert given == []


def test_retries_a_failed_refresh_once_a_minute(look: Callable[[float], None], given: list[float | None]) -> None:
    given += [-1, -1, 9000]
    for seconds in range(0, 121, 2):
        look(float(seconds))
    assert given == []


def test_never_refreshes_a_token_that_does_not_expire(look: Callable[[float], None], given: list[float | None]) -> None:
    given.append(None)
    look(0)
    look(1e9)
    assert given == []


def test_fetches_a_value_again_before_it_expires(project: Path, given: list[float | None]) -> None:
    app = Recipe(name="github.token", hosts=("github.com",), source="github-app:1:/k me/app")
    one, it = subject.Watched(recipe=app, due=NOW), read_project(project)
    given += [3600, -1, 3600]
    for seconds in range(-2, 3060, 2):
        one.look(it, NOW + seconds)
    assert len(given) == 2
    for seconds in range(3060, 3124, 2):
        one.look(it, NOW + seconds)
    assert given == []


@pytest.mark.parametrize(
    ("held", "aws", "command"),
    [
        ({"expires": NOW}, NOW - subject.EARLY_SECONDS, NOW - subject.EARLY_SECONDS),
        ({}, None, None),
        ({"problem": "its source failed"}, 0.0, None),  # a command may ask for a password: `up` runs it again
        ({"name": "another"}, 0.0, None),
        (None, 0.0, None),
    ],
)
def test_takes_the_time_of_the_next_fetch_from_the_proxy(
    project: Path, docker: FakeDocker, held: dict[str, object] | None, aws: float | None, command: float | None
) -> None:
    recipes = recipes_of(project, os.environ)
    for name, source, ttl in (
        ("aws", "aws:default", None),
        ("command", "sso print", None),
        ("until", "sso print", 60.0),
    ):
        recipes.add(Recipe(name=name, hosts=("a.test",), source=source, ttl=ttl))
    with_containers(docker, proxy="healthy")
    names = ("aws", "command", "until")
    rows = json.dumps([{"name": name, "hosts": [], **held} for name in names]) if held is not None else "damaged"
    docker.says("agent_sandbox.proxy secret list", out=rows)
    found = {one.recipe.name: one.due for one in subject.watched(read_project(project))}
    assert found == {name: due for name, due in (("aws", aws), ("command", command)) if due is not None}


def test_a_keeper_is_started_only_if_needed_and_ends_with_its_parent(
    project: Path, monkeypatch: pytest.MonkeyPatch, given: list[float | None]
) -> None:
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(subject, "leave_running", started.append)
    subject.keep_secrets(read_project(project))
    assert started == []
    recipes_of(project, os.environ).add(Recipe(name="a", hosts=("a.test",), source="env:A", ttl=60.0))
    subject.keep_secrets(read_project(project))
    assert started == []
    recipes_of(project, os.environ).add(RECIPE)
    subject.keep_secrets(read_project(project))
    assert started == [(sys.executable, "-P", "-m", subject.__name__, str(project), str(os.getpid()))]
    parents = iter([7, 7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    given.append(None)
    subject.main(str(project), "7")
    assert given == []
    (file,) = recipes_of(project, os.environ).folder.iterdir()
    file.write_text("damaged")  # which the start has reported
    subject.keep_secrets(read_project(project))
    assert len(started) == 1
