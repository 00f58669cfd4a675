import json
from collections.abc import Sequence

from agent_sandbox.engines.compose.engine import DOCKER, Engine
from agent_sandbox.engines.compose.intruders import foreign_networks, sharers, strangers
from agent_sandbox.engines.container import Container, Sharer
from fake_docker import FakeDocker

PROXY, FIREWALL, AGENT, EXTRA = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)
A, B, C, D = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)
OWN = (f"{PROXY} /p app_egress", f"{FIREWALL} /f app_sandbox", f"{AGENT} /agent container:{FIREWALL}")


def stack(**states: str) -> tuple[Container, ...]:
    ids = {"proxy": PROXY, "firewall": FIREWALL, "agent": AGENT, "extra": EXTRA}
    return tuple(
        Container(id=ids[service][:12], service=service, image="x", state=state) for service, state in states.items()
    )


def names(engine: Engine, found: Sequence[Container]) -> tuple[str, ...]:
    return tuple(one.name for one in sharers(engine, found))


UP = stack(proxy="running", firewall="running", agent="running")


def answering(docker: FakeDocker, *rows: str, code: int = 0) -> FakeDocker:
    docker.says("inspect --type container --format", out="".join(f"{row}\n" for row in rows), code=code)
    return docker.says("ps --quiet --no-trunc", out="".join(f"{row.split()[0]}\n" for row in rows))


def test_finds_no_sharers_among_the_stacks_own_and_unrelated_containers(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{A} /elsewhere bridge", f"{B} /host host", f"{C} /beside container:{A}")
    assert names(DOCKER, UP) == ()


def test_names_containers_that_join_the_network_of_the_firewall_agent_or_proxy(docker: FakeDocker) -> None:
    rows = (f"{A} /a container:{FIREWALL}", f"{B} /b container:{AGENT}", f"{C} /c container:{PROXY}")
    answering(docker, *rows, *OWN)
    assert names(DOCKER, UP) == ("a", "b", "c")


def test_follows_a_chain_of_containers_that_share_a_network(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{A} /a container:{B}", f"{B} /b container:{C}", f"{C} /c container:{AGENT}")
    assert names(DOCKER, UP) == ("a", "b", "c")


def test_names_a_service_that_a_compose_override_adds(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{EXTRA} /app-1-extra-1 container:{FIREWALL}")
    assert names(DOCKER, (*UP, *stack(extra="running"))) == ("app-1-extra-1",)


WITH_DB = (
    *UP,
    Container(id=C[:12], service="firewall.db", image="x", state="running"),
    Container(id=D[:12], service="db", image="x", state="running"),
)


def test_accepts_a_service_beside_the_sandbox_that_joins_its_own_firewall(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{C} /app-1-firewall.db-1 app_beside", f"{D} /app-1-db-1 container:{C}")
    assert names(DOCKER, WITH_DB) == ()


def test_names_containers_that_join_the_firewall_of_another_service(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{D} /app-1-db-1 container:{FIREWALL}", f"{A} /a container:{C}")
    assert names(DOCKER, WITH_DB) == ("a", "app-1-db-1")


def test_names_sharers_although_another_container_ended_in_the_meantime(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{A} /a container:{FIREWALL}", code=1)
    assert names(DOCKER, UP) == ("a",)


def test_ends_the_search_in_a_circle_of_containers(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{A} /a container:{B}", f"{B} /b container:{A}")
    assert names(DOCKER, UP) == ()


def test_does_not_ask_docker_about_a_stopped_stack(docker: FakeDocker) -> None:
    assert (names(DOCKER, stack(firewall="exited", agent="exited")), docker.calls) == ((), [])


def test_no_sharers_are_reported_if_docker_fails(docker: FakeDocker) -> None:
    docker.says("ps --quiet", err="Cannot connect\n", code=1)
    assert names(DOCKER, UP) == ()


def test_suggests_disconnecting_the_firewall_from_foreign_networks() -> None:
    both = Container(id="1", service="firewall", image="x", state="running", networks=("app-1_sandbox", "mine"))
    own = Container(id="2", service="firewall", image="x", state="running", networks=("app-1_sandbox",))
    proxy = Container(id="3", service="proxy", image="x", state="running", networks=("app-1_egress", "app-1_sandbox"))
    assert foreign_networks(DOCKER, [both, own, proxy], "app-1") == ("docker network disconnect mine 1",)


def container(service: str, state: str = "running") -> Container:
    return Container(id=service, service=service, image="x", state=state)


def test_suggests_disconnecting_strangers_from_the_internal_network(docker: FakeDocker) -> None:
    members = {"1aa": {"Name": "app-1-firewall-1"}, "9cc": {"Name": "db"}, "2bb": {"Name": "app-1-proxy-1"}}
    docker.says("network inspect app-1_sandbox", out=json.dumps(members))
    own = [
        Container(id=id_, service=service, image="x", state="running", networks=("app-1_sandbox",))
        for id_, service in (("1a", "firewall"), ("2b", "proxy"))
    ]
    assert strangers(DOCKER, own, "app-1") == ("docker network disconnect app-1_sandbox db",)


def test_accepts_the_network_of_the_services_but_names_strangers_in_the_network(docker: FakeDocker) -> None:
    docker.says("network inspect app-1_beside", out=json.dumps({"1aa": {"Name": "own"}, "9cc": {"Name": "spy"}}))
    docker.says("network inspect app-1_sandbox", out=json.dumps({"1aa": {"Name": "own"}}))
    networks = ("app-1_beside", "app-1_sandbox", "other")
    own = [Container(id="1a", service="firewall", image="x", state="running", networks=networks)]
    assert strangers(DOCKER, own, "app-1") == ("docker network disconnect app-1_beside spy",)
    assert foreign_networks(DOCKER, own, "app-1") == ("docker network disconnect other 1a",)


def test_finds_no_strangers_without_a_network_or_if_inspecting_the_network_fails(docker: FakeDocker) -> None:
    assert (strangers(DOCKER, [container("firewall")], "app-1"), docker.calls) == ((), [])
    docker.says("network inspect", code=1)
    firewall = Container(id="1", service="firewall", image="x", state="running", networks=("app-1_sandbox",))
    assert strangers(DOCKER, [firewall], "app-1") == ()


def test_reports_the_command_that_stops_a_sharer(docker: FakeDocker) -> None:
    answering(docker, *OWN, f"{A} /a container:{FIREWALL}")
    assert sharers(DOCKER, UP) == (Sharer(name="a", mending="docker stop a"),)
