import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.registries import image_machine
from agent_sandbox.features.usage.commands.usage import usage
from agent_sandbox.host.agents import load_manifest
from agent_sandbox.images import agent_name, usage_images, usage_name
from agent_sandbox.project.installed import read_project
from agent_sandbox.stack.services.agent import state_volumes
from fake_docker import FakeDocker

COUNTS = {"inputTokens": 1234, "outputTokens": 50, "cacheCreationTokens": 6, "cacheReadTokens": 7}
ROW = {**COUNTS, "agent": "one\x1b[2J", "totalCost": 1.5}
ROW["modelBreakdowns"] = [{**COUNTS, "modelName": "large", "cost": 1.5}]
FREE = {**COUNTS, "agent": "two", "totalCost": 0, "modelBreakdowns": []}
ANSWER = json.dumps({"daily": [{"agents": [ROW, FREE]}]})
NUMBERS = {"input": 1234, "output": 50, "cache_creation": 6, "cache_read": 7}
FROM = "list prices, from what the agents wrote in their session files\n"
UNKNOWN = "another user's, or never trusted here"


@pytest.fixture
def machine(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake the volumes of this project's and another user's stack, and the image that counts."""
    agent = load_manifest(read_project(project).agents[0])
    volumes = [f"app-1 app-1_{key}" for key in state_volumes(agent)]
    volumes += ["app-1 app-1_ca-private", "other other_ca-private"]
    docker.says("volume ls", out="".join(f"{volume}\n" for volume in volumes)).says("ps --all --quiet")
    labels = [
        {"tags": [image.name], "labels": {"agent-sandbox.digest": image.digest, "agent-sandbox.base": ""}}
        for image in usage_images()
    ]
    return docker.says("image inspect", out="\n".join(map(json.dumps, labels)))


def test_prints_a_table_with_a_total(machine: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    machine.says("run --rm", out=ANSWER)
    assert exit_code(usage) == 0
    out, err = capsys.readouterr()
    assert out == (
        "STACK  AGENT       INPUT  OUTPUT  CACHE   COST\n"
        "app-1  one\\x1b[2J  1,234      50     13  $1.50\n"
        "app-1  two         1,234      50     13      -\n"
        f"total              2,468     100     26  $1.50\n{FROM}"
    )
    assert err == f"not counted: other: {UNKNOWN}\n"
    (asked,) = (call for call in machine.calls if call.startswith("run "))
    assert "--network none --read-only --cap-drop ALL" in asked
    assert all(",readonly," in word for word in asked.split() if word.startswith("type=volume"))
    assert f" --entrypoint timeout {usage_name()} --kill-after=2 70 python3 -I /opt/usage/count.py daily " in asked


def test_json_output_has_models_totals_and_stacks_not_counted(
    machine: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.says("run --rm", out=ANSWER)
    assert exit_code(lambda: usage(json=True, since="2026-01-31T12:00+00:00")) == 0
    one = {**NUMBERS, "cost": 1.5, "total": 1297}
    free = {**NUMBERS, "cost": 0.0, "total": 1297}
    assert json.loads(capsys.readouterr().out) == {
        "since": "2026-01-31",
        "stacks": [
            {
                "name": "app-1",
                "root": str(project),
                "agents": [
                    {"agent": "one\x1b[2J", **one, "models": [{"model": "large", **one}]},
                    {"agent": "two", **free, "models": []},
                ],
            }
        ],
        "total": {**{name: 2 * number for name, number in NUMBERS.items()}, "cost": 1.5, "total": 2594},
        "not_counted": [{"name": "other", "why": UNKNOWN}],
    }
    assert machine.calls[-1].endswith(" --since 2026-01-31")


@pytest.mark.parametrize("answer", [{"out": "x"}, {"out": ANSWER, "code": 1}, {"out": ""}])
def test_reports_a_stack_whose_session_files_cannot_be_read(
    machine: FakeDocker, capsys: pytest.CaptureFixture[str], answer: dict[str, str | int]
) -> None:
    machine.says("run --rm", **answer)  # type: ignore[arg-type]
    assert exit_code(usage) == 1
    assert capsys.readouterr().err == (
        "no agent on this machine has reported any tokens\n"
        f"not counted: other: {UNKNOWN}\n"
        "not counted: app-1: the session files could not be read\n"
    )


def test_a_machine_without_stacks_builds_nothing(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("volume ls").says("ps --all --quiet")
    assert exit_code(usage) == 0
    assert capsys.readouterr().err == "no agent on this machine has reported any tokens\n"
    assert len(docker.calls) == 2


def test_lists_no_agents_for_a_stack_without_state_volumes(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    labels = ({"tags": [one.name], "labels": {"agent-sandbox.digest": one.digest}} for one in usage_images())
    docker.says("volume ls", out="app-1 app-1_ca-private\n").says("ps --all --quiet")
    docker.says("image inspect", out="\n".join(map(json.dumps, labels)))
    assert exit_code(lambda: usage(json=True)) == 0
    assert json.loads(capsys.readouterr().out)["stacks"] == [{"name": "app-1", "root": str(project), "agents": []}]


def test_rejects_an_invalid_time_in_since(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    assert exit_code(lambda: usage(since="soon")) == 1
    assert capsys.readouterr().err.startswith("error: --since: not a time: 'soon'\n")
    assert docker.calls == []


def test_the_image_is_built_from_the_registry_that_npm_names(
    docker: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(f"{usage.__module__}.this_machine", lambda _: image_machine(lambda _: ""))
    found = read_project(project)
    built = agent_name(found.agents, found.owner, {}, found.base_image)
    docker.says("volume ls", out="app-1 app-1_ca-private\n").says("ps --all --quiet").says("build --progress")
    docker.says("image inspect", out=json.dumps({"tags": [built], "labels": {}}))
    docker.says("run --rm", out="https://npm.test/\n")
    exit_code(usage)
    (build,) = (call for call in docker.calls if f"--tag {usage_name()}" in call)
    assert "--build-arg NPM_REGISTRY=https://npm.test/" in build
