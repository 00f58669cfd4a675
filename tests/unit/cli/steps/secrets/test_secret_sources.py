import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.cli.steps.secrets import secret_sources as subject
from agent_sandbox.cli.steps.secrets.secret_sources import give, sync_after_start
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.installed import read_project
from agent_sandbox.runtime.sources.recipes import Recipe, recipes_of
from agent_sandbox.runtime.sources.value import Fetched
from fake_docker import FakeDocker

RECIPE = Recipe(name="a", hosts=("a.test",), source="env:A_KEY")


def test_a_failed_source_removes_the_previous_value_from_the_proxy(project: Path, docker: FakeDocker) -> None:
    docker.says("secret set")
    with pytest.raises(UserError):
        give(read_project(project), RECIPE)
    assert [call.partition(" secret ")[2] for call in docker.calls] == [
        "set a --host a.test --unresolved --folder /state/secrets"
    ]


def test_a_value_that_has_not_expired_stays_if_it_cannot_be_renewed(project: Path, docker: FakeDocker) -> None:
    with pytest.raises(UserError):
        give(read_project(project), RECIPE, keeps=True)
    assert docker.calls == []


@pytest.mark.parametrize(
    ("ttl", "left", "told"),
    [
        (None, None, ""),
        (60.0, None, "--ttl 60 "),
        (None, 90.4, "--ttl 90 "),
        (60.0, 90.0, "--ttl 60 "),
        (99.0, 90.0, "--ttl 90 "),
    ],
)
def test_a_value_expires_at_the_earlier_of_its_ttl_and_its_source(  # noqa: PLR0917 - the rows
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, ttl: float | None, left: float | None, told: str
) -> None:
    docker.says("secret set")
    monkeypatch.setattr(subject, "fetched", lambda *_: Fetched(value=b"correct horse", left=left))
    assert give(read_project(project), replace(RECIPE, ttl=ttl)) == min(filter(None, (ttl, left)), default=None)
    assert docker.calls[-1].endswith(f"secret set a --host a.test --source env {told}--folder /state/secrets")


def test_warns_about_a_damaged_source_file_after_a_start(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = recipes_of(project, os.environ)
    recipes.add(RECIPE)
    (file,) = recipes.folder.iterdir()
    file.write_text("damaged")
    sync_after_start(read_project(project))
    told = f"warning: {file}: this file is damaged; remove it, and set the secrets again\n"
    assert (capsys.readouterr().err, docker.calls) == (told, [])
