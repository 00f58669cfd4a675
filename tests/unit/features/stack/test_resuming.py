from pathlib import Path

import pytest

from agent_sandbox.engines.compose.containers import containers
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.container import Container
from agent_sandbox.features.stack.start_stack import resumed
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import with_containers

PROJECT = Project(root=Path("/"), name="app-1", agents=("example",), owner=Owner(), images=(), files=())


def states(found: tuple[Container, ...]) -> dict[str, str]:
    return {container.service: container.condition for container in found}


def test_runs_no_further_commands_for_a_stack_that_was_never_paused(docker: FakeDocker) -> None:
    """The same holds with a stopped container, which the engine calls unhealthy without a failed check."""
    with_containers(docker, proxy="unhealthy", firewall="healthy", agent="exited")
    found = containers(DOCKER, "app-1")
    asked = docker.calls
    told: list[object] = []
    assert resumed(PROJECT, found, tell=told.append, sleep=told.append) == found
    assert (told, docker.calls) == ([], asked)


def test_unpauses_containers_and_waits_for_their_next_health_check(docker: FakeDocker) -> None:
    with_containers(docker, proxy="healthy", firewall="paused", agent="paused")
    found = containers(DOCKER, "app-1")
    docker.rules.clear()
    with_containers(docker.says("unpause"), proxy="healthy", firewall="unchecked", agent="healthy")
    told: list[str] = []
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            docker.rules.clear()
            with_containers(docker, proxy="healthy", firewall="healthy", agent="healthy")

    resumed_ = resumed(PROJECT, found, tell=told.append, sleep=sleep)
    assert states(resumed_) == {"proxy": "healthy", "firewall": "healthy", "agent": "healthy"}
    assert [call for call in docker.calls if call.startswith("unpause")] == ["unpause firewall0000 agent0000000"]
    assert told == ["unpausing firewall, agent", "waiting for the next health check of firewall, which was paused"]
    assert len(slept) == 3


def test_stops_waiting_when_the_health_check_is_overdue(docker: FakeDocker) -> None:
    with_containers(docker, firewall="unchecked")
    slept: list[float] = []
    found = resumed(PROJECT, containers(DOCKER, "app-1"), tell=lambda _: None, sleep=slept.append)
    assert states(found) == {"firewall": "not checked since it was paused"}
    assert 35 <= sum(slept) < 37


def test_reports_why_the_engine_did_not_unpause(docker: FakeDocker) -> None:
    with_containers(docker, agent="paused").says("unpause", err="Error response from daemon: frozen\n", code=1)
    with pytest.raises(UserError) as caught:
        resumed(PROJECT, containers(DOCKER, "app-1"), tell=lambda _: None)
    assert str(caught.value).startswith("unpausing the stack: docker failed: Error response from daemon: frozen")
