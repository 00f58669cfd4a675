"""`verify` on a real stack: green as it is, and red as soon as one wall is taken away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine import run
from real_stacks import STANDIN_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from real_stacks import Project


def leaks(project: Project, *options: str) -> set[str]:
    """Return what got out, by `group: what was tried`."""
    done = project.sandbox("verify", "--json", *options, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["ok"] else 1)
    return {f"{one['group']}: {one['tried']}" for one in found["probes"] if one["verdict"] == "LEAK"}


def test_every_way_out_is_closed_and_nothing_reached_the_internet(claude: Project) -> None:
    before = len(claude.internet.events())
    done = claude.sandbox("verify", "--full", "--capture", f"{STANDIN_ADDRESS}:22")
    assert done.stdout.splitlines()[-1].endswith(" tried, none got out")
    assert claude.internet.events()[before:] == []


def test_each_group_tries_something(claude: Project) -> None:
    found = json.loads(claude.sandbox("verify", "--full", "--json").stdout)["probes"]
    assert {one["group"] for one in found} == {"direct", "names", "network", "proxy", "privileges", "sockets", "walls"}
    assert len(found) > 80


def test_the_quick_part_takes_no_two_seconds(claude: Project) -> None:
    found = json.loads(claude.sandbox("verify", "--json").stdout)["probes"]
    assert sum(one["ms"] for one in found) < 1000


@pytest.fixture
def flushed(claude: Project) -> Iterator[Project]:
    """The stack without its rules: its network is all that holds."""
    flush = "iptables -P INPUT ACCEPT; iptables -P OUTPUT ACCEPT; iptables -F"
    claude.compose("exec", "-T", "--user", "root", "firewall", "sh", "-c", flush)
    yield claude
    claude.compose("up", "--detach", "--force-recreate", "--wait", "firewall", "agent")


def test_rules_that_were_flushed_are_seen(flushed: Project) -> None:
    # The network holds, but nothing refuses at once what it does not carry.
    assert leaks(flushed) == {
        "direct: tcp 198.51.100.1:443",
        "direct: udp 198.51.100.1:53",
        "names: the engine's resolver by tcp",
        "names: the engine's resolver by udp",
        "network: the cloud's metadata",
        "network: the proxy by udp",
    }


@pytest.fixture
def ordinary(claude: Project) -> Iterator[Project]:
    """The stack with another network besides its own: its rules are all that holds."""
    firewall = claude.containers()["firewall"]["Id"]
    run("docker", "network", "connect", claude.internet.name, firewall)
    yield claude
    run("docker", "network", "disconnect", claude.internet.name, firewall)


def test_another_network_is_seen(ordinary: Project) -> None:
    assert leaks(ordinary) == {"direct: another network"}
    (mending,) = json.loads(ordinary.sandbox("status", "--json").stdout)["connected"]
    assert mending.startswith(f"docker network disconnect {ordinary.internet.name} ")


def probe_in_another_container(project: Project, *options: str) -> set[str]:
    """Run the probe, by its file alone, in a container that nothing locks in, on the stand-in's network."""
    source = project.exec("cat", "/usr/local/lib/agent-sandbox/probe.py").stdout
    image = project.containers()["agent"]["Config"]["Image"]
    done = run(
        "docker", "run", "--rm", "--user=root", "--entrypoint=python3", f"--network={project.internet.name}",
        image, "-I", "-c", source, "--json", *options, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    return {f"{one['group']}: {one['tried']}" for one in json.loads(done.stdout)["probes"] if one["verdict"] == "LEAK"}


def test_an_ordinary_container_leaks_and_its_listener_heard_it(claude: Project) -> None:
    before = len(claude.internet.events())
    found = probe_in_another_container(claude, "--capture", f"{STANDIN_ADDRESS}:22")
    assert {
        f"capture: tcp {STANDIN_ADDRESS}:22", f"capture: udp {STANDIN_ADDRESS}:22",
        "names: the engine's resolver by tcp", "privileges: root", "privileges: capabilities",
    } <= found  # fmt: skip
    assert [event["event"] for event in claude.internet.events()[before:]] != []


def test_no_agent_starts_behind_a_wall_that_does_not_hold(claude: Project) -> None:
    privileged = {"services": {"agent": {"cap_add": ["NET_RAW"]}}}
    override = claude.path.parent / "weaker.json"
    override.write_text(json.dumps(privileged))
    files = ("-f", ".devcontainer/docker-compose.yml", "-f", str(claude.override), "-f", str(override))
    try:
        claude.compose(*files, "up", "--detach", "--no-deps", "--wait", "agent", check=False)
        log = claude.compose("logs", "agent").stdout
        assert "LEAK    privileges  capabilities" in log
        assert "agent-sandbox: the container is not sealed" in log
    finally:
        claude.compose("up", "--detach", "--wait")
