from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.engines.compose.checks import subnet as subject
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.subnet import read_routes, subnet
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.result import CheckResult, fail, ok
from agent_sandbox.project.installed import read_project

HINT = "remove unused ones with `docker network rm`, or move the project to another path and run init again"
COMPOSE = """\
name: app-1
x-agent-sandbox: {agent: example, dev: "1000:1000"}
networks: {sandbox: {ipam: {config: [{subnet: 10.130.0.16/28}]}}}
"""
ROUTES = """\
Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
OURS = {"Name": "app-1_sandbox", "Id": "0123456789abcdef", "Labels": {"com.docker.compose.project": "app-1"}}


def docker_network(name: str, subnet: str, **more: object) -> dict[str, Any]:
    return {"Name": name, "Id": name, "Labels": {}, "IPAM": {"Config": [{"Subnet": subnet}]}, **more}


def examined(root: Path, monkeypatch: pytest.MonkeyPatch, networks: list[dict[str, Any]], routes: str) -> CheckResult:
    (root / ".devcontainer").mkdir()
    (root / ".devcontainer" / "docker-compose.yml").write_text(COMPOSE)
    (root / "routes").write_text(ROUTES + routes)
    monkeypatch.setattr(subject, "ROUTES", root / "routes")
    monkeypatch.setattr(EngineHost, "is_local", True)
    host = EngineHost(engine=DOCKER)
    host.networks = tuple(networks)
    return subnet(host, read_project(root))


def test_accepts_a_subnet_that_no_other_network_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [docker_network("bridge", "172.17.0.0/16"), docker_network("six", "fd00::/64")]
    assert examined(tmp_path, monkeypatch, others, "") == ok("subnet", "10.130.0.16/28 is free")


def test_fails_if_another_docker_network_overlaps_the_subnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [docker_network("company", "10.128.0.0/9")]
    expected = fail("subnet", "10.130.0.16/28 is also used by docker network company", HINT)
    assert examined(tmp_path, monkeypatch, others, "") == expected


def test_suggests_removing_another_stack_that_uses_the_subnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**docker_network("old-1_sandbox", "10.130.0.16/28"), "Labels": {"com.docker.compose.project": "old-1"}}
    ended = "remove a stack that you do not need: cd / && docker compose --project-name old-1 down"
    expected = fail(
        "subnet",
        "10.130.0.16/28 is also used by docker network old-1_sandbox",
        f"{ended}, or move the project to another path and run init again",
    )
    assert examined(tmp_path, monkeypatch, [other], "") == expected


def test_fails_if_a_route_of_the_host_machine_overlaps_the_subnet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = "tun0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
    expected = fail("subnet", "10.130.0.16/28 is also used by route 10.0.0.0/8 via tun0", HINT)
    assert examined(tmp_path, monkeypatch, [], route) == expected


def test_accepts_the_subnet_of_the_stacks_own_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    route = "br-0123456789ab\t1000820A\t00000000\t0001\t0\t0\t0\tF0FFFFFF\t0\t0\t0\n"
    ours = {**docker_network("app-1_sandbox", "10.130.0.16/28"), **OURS}
    assert examined(tmp_path, monkeypatch, [ours], route) == ok("subnet", "10.130.0.16/28 is the stack's own")


def test_routes_are_read_from_the_kernels_table() -> None:
    assert read_routes(ROUTES) == {
        "route 0.0.0.0/0 via eth0": IPv4Network("0.0.0.0/0"),
        "route 192.168.0.0/16 via eth0": IPv4Network("192.168.0.0/16"),
    }
