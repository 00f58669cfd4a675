import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.secrets.commands.sync import sync
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"


@pytest.fixture
def running(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Fake a proxy that stores the values it gets; add two secrets with a source."""
    for name in ("a", "b"):
        recipe = Recipe(name=name, hosts=("x.test", "y.test"), source=f"env:{name.upper()}_KEY")
        recipes_of(project, os.environ).add(recipe)
    monkeypatch.setenv("A_KEY", "correct horse")
    monkeypatch.setenv("B_KEY", "battery staple")
    docker.says(f"{PROGRAM} secret set", script=f"cat >>{docker.folder / 'told'}")
    return with_containers(docker, proxy="healthy")


def told(docker: FakeDocker) -> list[str]:
    line = f"{compose_line(Path.cwd())} exec -T proxy {PROGRAM} secret set "
    return [call.removeprefix(line) for call in docker.calls if call.startswith(line)]


def test_each_secret_is_fetched_from_its_source_and_given_to_the_proxy(
    running: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(sync) == 0
    assert capsys.readouterr() == ("", "2 secrets fetched from their sources\n")
    assert told(running) == [
        f"{name} --host x.test --host y.test --source env --folder /state/secrets" for name in ("a", "b")
    ]
    assert (running.folder / "told").read_text() == "correct horsebattery staple"


def test_a_failed_source_is_reported_and_the_others_are_fetched(
    running: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_KEY")
    assert exit_code(sync) == 1
    assert capsys.readouterr().err == (
        "error: env:A_KEY: the source of a gives no value: the variable A_KEY is not set\n"
        "  hint: export A_KEY, then agent-sandbox secret sync\n"
    )
    assert [line.split()[5] for line in told(running)] == ["--unresolved", "--source"]
    assert (running.folder / "told").read_text() == "battery staple"


def test_only_tests_the_sources_if_no_proxy_runs(
    running: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running.rules.clear()
    running.says("ps --all")
    assert exit_code(sync) == 0
    said = "2 secrets fetched from their sources, as a test: agent-sandbox up gives the proxy their values\n"
    assert capsys.readouterr().err == said
    monkeypatch.delenv("A_KEY")
    assert (exit_code(sync), told(running)) == (1, [])
    assert "the variable A_KEY is not set" in capsys.readouterr().err


def test_one_secret_is_reported_in_the_singular(
    running: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running.rules
    assert recipes_of(project, os.environ).remove("a")
    assert exit_code(sync) == 0
    assert capsys.readouterr().err == "1 secret fetched from its source\n"


def test_a_project_that_is_not_trusted_gets_no_secret(
    running: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".devcontainer" / "docker-compose.yml").write_text("name: app-1\n")
    assert exit_code(sync) == 1
    assert told(running) == []
    assert capsys.readouterr().err != ""
