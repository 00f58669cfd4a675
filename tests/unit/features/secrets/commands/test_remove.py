import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.secrets.commands.remove import remove
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.project.trust_store import open_store
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"


def test_removes_a_secret_from_the_proxy(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    docker.says(f"{PROGRAM} secret remove")
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: remove("tracker.token")) == 0
    assert capsys.readouterr() == ("", "tracker.token is removed: the proxy no longer injects it\n")
    expected = f"{compose_line(project)} exec -T proxy {PROGRAM} secret remove tracker.token --folder /state/secrets"
    assert docker.calls[-1] == expected


def test_warns_if_the_policy_still_needs_the_removed_secret(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says(f"{PROGRAM} secret remove")
    with_containers(docker, proxy="healthy")
    policy = project / ".devcontainer" / "policy.yaml"
    policy.write_text("version: 1\nservices: [{name: openai, secret: openai.key}]\n")
    assert exit_code(lambda: remove("openai.key")) == 0
    _, second = capsys.readouterr().err.splitlines()
    until = "so these requests are denied until it is set again or the policy changed"
    assert second == f"the policy still needs it (service openai), {until}"
    policy.write_text("version: [\n")
    assert exit_code(lambda: remove("openai.key")) == 0
    assert capsys.readouterr().err == "openai.key is removed: the proxy no longer injects it\n"


def test_prints_the_error_of_the_proxy_for_an_unknown_secret(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says(f"{PROGRAM} secret remove", err="secret x: there is none\n", code=1)
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: remove("x")) == 1
    assert capsys.readouterr() == ("", "error: secret x: there is none\n")


def test_rejects_an_invalid_name_without_calling_docker(docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: remove("a/b")) == 1
    assert capsys.readouterr().err.startswith("error: NAME: not a secret name: 'a/b'\n")
    assert docker.calls == []


def test_reports_a_proxy_that_does_not_run(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert open_store(os.environ).forget(project)  # so there is no compose file to start a container from
    with_containers(docker, proxy="exited")
    assert exit_code(lambda: remove("a")) == 1
    assert capsys.readouterr().err.startswith("error: app-1: the proxy is exited with code 1\n")


def test_refuses_to_remove_a_secret_whose_source_is_in_the_users_file(
    project: Path,
    docker: FakeDocker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    config = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    file = config / "agent-sandbox" / "secrets.yaml"
    file.parent.mkdir()
    recipe = f"{{name: a, hosts: [a.test], from: pass a, projects: ['{project}']}}"
    file.write_text(f"version: 1\nsecrets: [{recipe}]\n")
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: remove("a")) == 1
    assert capsys.readouterr().err == (
        "error: a: your own file names it for this project, so it would be fetched again\n"
        f"  hint: remove it from {file}, then run this again\n"
    )


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("healthy", "a is removed: the proxy no longer injects it\n"),
        ("exited", "a is removed and will not be fetched again\n"),
    ],
)
def test_removes_the_source_too_even_if_the_proxy_does_not_run(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], proxy: str, said: str
) -> None:
    recipes_of(project, os.environ).add(Recipe(name="a", hosts=("a.test",), source="pass a"))
    docker.says(f"{PROGRAM} secret remove")
    with_containers(docker, proxy=proxy)
    assert exit_code(lambda: remove("a")) == 0
    assert (capsys.readouterr().err, recipes_of(project, os.environ).load()) == (said, ())
