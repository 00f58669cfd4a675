import os
from pathlib import Path

import pytest

from agent_sandbox.cli.steps.secrets.secret_sources import give, sync_after_start
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.installed import read_project
from agent_sandbox.runtime.sources.recipes import Recipe, recipes_of
from fake_docker import FakeDocker

RECIPE = Recipe(name="a", hosts=("a.test",), source="env:A_KEY")


def test_a_failed_source_removes_the_previous_value_from_the_proxy(project: Path, docker: FakeDocker) -> None:
    docker.says("secret set")
    with pytest.raises(UserError):
        give(read_project(project), RECIPE)
    assert [call.partition(" secret ")[2] for call in docker.calls] == [
        "set a --host a.test --unresolved --folder /state/secrets"
    ]


def test_sources_that_cannot_be_read_are_a_warning_after_a_start(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = recipes_of(project, os.environ)
    recipes.add(RECIPE)
    (file,) = recipes.folder.iterdir()
    file.write_text("damaged")
    sync_after_start(read_project(project))
    told = f"warning: {file}: this file is damaged; remove it, and set the secrets again\n"
    assert (capsys.readouterr().err, docker.calls) == (told, [])
