"""Compare what a driver reads from the command with what the engine's API reports to another client."""

import subprocess
from pathlib import Path

import pytest

from agent_sandbox.engines.verbs import Stop
from agent_sandbox.stack.naming import network_name
from driver_worlds import World
from engine_api import NotLocalError, containers, endpoint, second_client

pytestmark = pytest.mark.docker
FAR = "ssh://me@198.51.100.7"  # a documentation address: nothing connects to it
RUNNING = {"proxy": "healthy", "firewall": "healthy", "agent": "healthy"}


def told(*argv: str) -> str:
    return subprocess.run(["docker", *argv], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the endpoint of this machine's engine, without the user's settings."""
    address = endpoint()
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return address


@pytest.fixture
def contexts(near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create two contexts: `near` is this machine's engine, `far` is behind ssh."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    told("context", "create", "near", "--docker", f"host={near}")
    told("context", "create", "far", "--docker", f"host={FAR}")


@pytest.mark.usefixtures("contexts")
def test_both_clients_use_the_engine_of_the_current_context(near: str) -> None:
    told("context", "use", "near")
    with second_client() as client:
        assert (endpoint(), client.info()["ID"]) == (near, told("info", "--format", "{{.ID}}"))
    told("context", "use", "far")
    assert endpoint() == FAR


def test_both_clients_use_the_engine_of_docker_host(near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "engine.sock"
    link.symlink_to(near.removeprefix("unix://"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{link}")
    with second_client() as client:
        assert (endpoint(), client.info()["ID"]) == (f"unix://{link}", told("info", "--format", "{{.ID}}"))


@pytest.mark.usefixtures("contexts")
@pytest.mark.parametrize(("variable", "value"), [("DOCKER_CONTEXT", "far"), ("DOCKER_HOST", FAR)])
def test_the_api_client_refuses_an_engine_behind_ssh(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert endpoint() == FAR
    with pytest.raises(NotLocalError, match=FAR), second_client():
        pass


@pytest.mark.usefixtures("contexts")
def test_docker_host_wins_over_a_context(near: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "far")
    monkeypatch.setenv("DOCKER_HOST", near)
    assert endpoint() == near


@pytest.mark.parametrize("world", ["real compose"], indirect=True)
def test_the_driver_observes_what_the_api_reports(world: World) -> None:
    world.have(proxy="healthy", firewall="healthy", agent="paused")
    with second_client() as client:
        said = containers(client, world.project.name)
        members = client.api.inspect_network(network_name(world.project.name))["Containers"]
        seen = world.driver.observe(world.project.name)
        assert {one.service: one.id for one in seen} == {name: one["Id"][:12] for name, one in said.items()}
        assert {one.service: one.state for one in seen} == {name: one["State"]["Status"] for name, one in said.items()}
        assert {one.service: list(one.networks) for one in seen} == {
            name: sorted(one["NetworkSettings"]["Networks"]) for name, one in said.items()
        }
        assert sorted(key[:12] for key in members) == sorted(one.id for one in seen if one.networks)
        assert world.driver.intruders(seen, world.project.name).strangers == ()


@pytest.mark.parametrize("world", ["real compose"], indirect=True)
def test_stopping_a_container_makes_the_engine_report_its_end(world: World) -> None:
    world.have(**RUNNING)
    (agent,) = (one for one in world.driver.observe(world.project.name) if one.service == "agent")
    with second_client() as client:
        events = client.events(decode=True, filters={"container": agent.id, "event": ["die"]})
        world.driver.execute(world.driver.planner.plan(world.project, Stop(service="agent", container=agent.id)))
        assert next(iter(events))["Action"] == "die"
        events.close()
