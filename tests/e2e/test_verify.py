"""`verify` on a real stack: passes on an intact stack, and fails when one protection is removed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from engine import run
from real_stacks import STANDIN_ADDRESS, Project


def leaks(project: Project, *options: str) -> set[str]:
    """Return the probes that found a leak, as `group: what was tried`."""
    done = project.sandbox("verify", "--json", *options, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["ok"] else 1)
    return {f"{one['group']}: {one['tried']}" for one in found["probes"] if one["verdict"] == "LEAK"}


def test_full_run_finds_no_leak_and_nothing_reaches_the_internet(claude: Project) -> None:
    before = len(claude.internet.events())
    done = claude.sandbox("verify", "--full", "--capture", f"{STANDIN_ADDRESS}:22")
    assert done.stdout.splitlines()[-1].endswith(" tried, none got out")
    assert claude.internet.events()[before:] == []


def test_full_run_has_probes_of_every_group(claude: Project) -> None:
    found = json.loads(claude.sandbox("verify", "--full", "--json").stdout)["probes"]
    assert {one["group"] for one in found} == {"direct", "names", "network", "proxy", "privileges", "sockets", "walls"}
    assert len(found) > 80


def test_quick_run_takes_less_than_a_second(claude: Project) -> None:
    found = json.loads(claude.sandbox("verify", "--json").stdout)["probes"]
    assert sum(one["ms"] for one in found) < 1000


@pytest.fixture
def flushed(claude: Project) -> Iterator[Project]:
    """The stack without firewall rules: only the internal network protects it."""
    flush = "iptables -P INPUT ACCEPT; iptables -P OUTPUT ACCEPT; iptables -F"
    claude.compose("exec", "-T", "--user", "root", "firewall", "sh", "-c", flush)
    yield claude
    claude.compose("up", "--detach", "--force-recreate", "--wait", "firewall", "agent")


def test_reports_leaks_when_the_firewall_rules_are_flushed(flushed: Project) -> None:
    # The internal network lets nothing out, but nothing refuses these connections at once.
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
    """The stack with a second, ordinary network: only the firewall rules protect it."""
    firewall = claude.containers()["firewall"]["Id"]
    run("docker", "network", "connect", claude.internet.name, firewall)
    yield claude
    run("docker", "network", "disconnect", claude.internet.name, firewall)


def test_reports_a_leak_when_the_firewall_is_connected_to_another_network(ordinary: Project) -> None:
    assert leaks(ordinary) == {"direct: another network"}
    (mending,) = json.loads(ordinary.sandbox("status", "--json").stdout)["connected"]
    assert mending.startswith(f"docker network disconnect {ordinary.internet.name} ")


def probe_in_another_container(project: Project, *options: str) -> set[str]:
    """Run the probe from its source in an ordinary container on the stand-in's network."""
    source = project.exec("cat", "/usr/local/lib/agent-sandbox/probe.py").stdout
    image = project.containers()["agent"]["Config"]["Image"]
    done = run(
        "docker", "run", "--rm", "--user=root", "--entrypoint=python3", f"--network={project.internet.name}",
        image, "-I", "-c", source, "--json", *options, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    return {f"{one['group']}: {one['tried']}" for one in json.loads(done.stdout)["probes"] if one["verdict"] == "LEAK"}


def test_reports_leaks_in_an_ordinary_container_that_reach_the_capture_address(claude: Project) -> None:
    before = len(claude.internet.events())
    found = probe_in_another_container(claude, "--capture", f"{STANDIN_ADDRESS}:22")
    assert {
        f"capture: tcp {STANDIN_ADDRESS}:22", f"capture: udp {STANDIN_ADDRESS}:22",
        "names: the engine's resolver by tcp", "privileges: root", "privileges: capabilities",
    } <= found  # fmt: skip
    assert [event["event"] for event in claude.internet.events()[before:]] != []


def test_the_start_check_reports_an_extra_capability_of_the_agent_container(claude: Project) -> None:
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
