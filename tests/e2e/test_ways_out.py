"""Ways out that are no HTTP: each tried from inside, while the agent's network leads to the stand-in for the internet.

The network is made ordinary on purpose: what a rule lets through is caught, and goes nowhere else.
"""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from engine import run
from real_stacks import STANDIN_ADDRESS, trust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from real_stacks import Project, Projects

REFUSED = ("ConnectionRefusedError", "PermissionError", "Network is unreachable", "No route to host")
# Prints what the kernel said, and how long that took.
TRY = """
import socket as s, sys, time
started = time.monotonic()
try:
    {attempt}
    said = "went out"
except OSError as error:
    said = f"{{type(error).__name__}}: {{error}}"
print(said, time.monotonic() - started < 2)
"""
CONNECT = "s.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
# A refusal of a datagram comes back after it was sent: the second call tells.
SOCKET = "c = s.socket(s.AF_INET, s.SOCK_DGRAM); c.settimeout(1); c.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1); "
DATAGRAM = f"{SOCKET}c.connect((sys.argv[1], int(sys.argv[2]))); c.send(b'x'); c.recv(1)"
SEND_TO = f"{SOCKET}c.sendto(b'x', (sys.argv[1], int(sys.argv[2])))"
PROXY = "the proxy"
# All that a project file can add to the network and to the agent, but for a browser, which takes minutes to build.
DAY = {
    "version": 1,
    "packages": ["tree"],
    "mask": ["masked.env", "masked/"],
    "ports": [5173],
    "mcp": {"mine": {"command": "python3", "args": ["-I", "server.py"]}},
    "beside": {
        "db": {
            "build": {"dockerfile": "service.Dockerfile"},
            "user": "1000:1000",
            "command": ["sleep", "infinity"],
            "expose": [5432],
        }
    },
}


@pytest.fixture(scope="module")
def open_to_all(projects: Projects) -> Iterator[Project]:
    """A stack with all of a working day, of which one wall is down: its network leads to the stand-in."""
    project = projects.make("ways", "claude")
    (project.path / ".devcontainer" / "service.Dockerfile").write_text("FROM debian:trixie-slim\nRUN mkdir /data\n")
    (project.path / ".devcontainer" / "sandbox.yaml").write_text(json.dumps(DAY))
    trust(project.path)
    project.allow("allowed.test")
    project.sandbox("up")
    firewall = project.containers()["firewall"]["Id"]
    run("docker", "network", "connect", project.internet.name, firewall)
    image = project.containers()["db"]["Image"]
    yield project
    run("docker", "network", "disconnect", project.internet.name, firewall)
    project.sandbox("destroy", "--yes")
    run("docker", "image", "rm", "--force", image, check=False)


def attempt(project: Project, code: str, *argv: str) -> str:
    done = project.exec("python3", "-c", TRY.format(attempt=code), *argv)
    return done.stdout.strip()


def proxy_address(project: Project) -> str:
    return project.exec("sh", "-c", "echo ${AGENT_SANDBOX_PROXY%:*}").stdout.strip()


@pytest.mark.parametrize("port", [22, 25, 53, 80, 443, 587, 853, 2375, 8443, 9418, 11434])
def test_no_connection_goes_past_the_proxy_on_any_port(open_to_all: Project, port: int) -> None:
    before = open_to_all.internet.events()
    said = attempt(open_to_all, CONNECT, STANDIN_ADDRESS, str(port))
    assert said.startswith("ConnectionRefusedError")
    assert said.endswith("True")
    assert open_to_all.internet.events() == before


@pytest.mark.parametrize("code", [DATAGRAM, SEND_TO])
@pytest.mark.parametrize(
    ("address", "port"),
    [
        *(pytest.param(STANDIN_ADDRESS, port, id=f"stand-in-{port}") for port in (53, 443, 123)),
        ("224.0.0.251", 5353),
        ("224.0.0.252", 5355),
        ("255.255.255.255", 137),
        ("127.0.0.11", 53),
        (PROXY, 443),  # where a client would try HTTP/3: names lead to the proxy
        (PROXY, 123),
    ],
)
def test_no_datagram_goes_out(open_to_all: Project, code: str, address: str, port: int) -> None:
    place = proxy_address(open_to_all) if address == PROXY else address
    said = attempt(open_to_all, code, place, str(port))
    assert said.startswith(REFUSED) or any(word in said for word in REFUSED), said


@pytest.mark.parametrize(
    "code",
    [
        "s.socket(s.AF_PACKET, s.SOCK_RAW)",
        "s.socket(s.AF_INET, s.SOCK_RAW, s.IPPROTO_ICMP)",
        "s.socket(s.AF_INET6, s.SOCK_RAW, s.IPPROTO_ICMPV6)",
        "s.socket(s.AF_INET, s.SOCK_RAW, s.IPPROTO_RAW)",
    ],
)
def test_no_raw_socket_can_be_had(open_to_all: Project, code: str) -> None:
    assert attempt(open_to_all, code).startswith("PermissionError")


def test_no_echo_request_goes_out(open_to_all: Project) -> None:
    ping = (
        "c = s.socket(s.AF_INET, s.SOCK_DGRAM, s.IPPROTO_ICMP); c.settimeout(1); "
        "c.sendto(bytes([8, 0, 0xf7, 0xff, 0, 0, 0, 0]), (sys.argv[1], 0)); c.recv(1)"
    )
    assert attempt(open_to_all, ping, STANDIN_ADDRESS).startswith(("PermissionError", "TimeoutError: timed out"))
    stats = run("docker", "exec", open_to_all.internet.name, "cat", "/proc/net/snmp").stdout.splitlines()
    names, values = (line.split() for line in stats if line.startswith("Icmp:"))
    assert dict(zip(names, values, strict=True))["InEchos"] == "0"


def test_ipv6_has_no_address_but_loopback(open_to_all: Project) -> None:
    interfaces = open_to_all.exec("cat", "/proc/net/if_inet6", check=False).stdout.splitlines()
    assert [line.split()[-1] for line in interfaces if line.split()[3] != "20"] in ([], ["lo"])


def test_the_gateway_answers_nothing(open_to_all: Project) -> None:
    names = [*open_to_all.containers()["firewall"]["NetworkSettings"]["Networks"]]
    networks = json.loads(run("docker", "network", "inspect", *names).stdout)
    # The bridge's first address, also where the engine names none as gateway.
    gateways = [str(ip_network(one["IPAM"]["Config"][0]["Subnet"])[1]) for one in networks]
    assert len(gateways) == 3
    for gateway in gateways:
        for port in ("22", "80", "2375", "11434"):
            assert attempt(open_to_all, CONNECT, gateway, port).startswith("ConnectionRefusedError")


@pytest.mark.parametrize(
    "data", [b"\x05\x01\x00", b"\x05\x02\x00\x02", b"\x04\x01\x00\x50\xc6\x33\x64\x82x\x00", b"SSH-2.0-x\r\n"]
)
def test_the_proxys_entrance_speaks_no_socks(open_to_all: Project, data: bytes) -> None:
    speak = (
        f"h, p = __import__('os').environ['AGENT_SANDBOX_PROXY'].split(':'); c = s.create_connection((h, int(p)), 5); "
        f"c.send({data!r}); c.shutdown(s.SHUT_WR); print(c.recv(99)[:12])"
    )
    said = attempt(open_to_all, speak)
    assert said.startswith(("b'HTTP/1.1 400'", "b''", "ConnectionResetError")), said


def test_what_hosts_says_of_a_name_does_not_matter(open_to_all: Project) -> None:
    assert open_to_all.exec("sh", "-c", "echo 198.51.100.9 allowed.test >> /etc/hosts", check=False).returncode != 0
    status, _ = open_to_all.curl("https://allowed.test/by-name", "--resolve", "allowed.test:443:198.51.100.9")
    assert status == 200


@pytest.mark.parametrize("name", ["localhost", "proxy", "firewall", "agent", "db", "host.docker.internal", "mitm.it"])
@pytest.mark.parametrize("port", [80, 443, 8080, 8081])
def test_no_neighbour_is_reached_through_the_proxy(open_to_all: Project, name: str, port: int) -> None:
    scheme = "https" if port == 443 else "http"
    # By --proxy even for localhost, which clients leave out by themselves.
    status, said = open_to_all.curl(f"{scheme}://{name}:{port}/", "--noproxy", "")
    assert status in {403, 0}, said
    assert status == 403 or "403" in said


def test_no_socket_of_anybodys_is_inside_and_none_is_named(open_to_all: Project) -> None:
    # An engine's, an agent's of keys, a display's, a bus's, an editor's: whatever it is called, and wherever it lies.
    script = "find / -path /proc -prune -o -type s -print 2>/dev/null; tail -n +2 /proc/net/unix; env | cut -d= -f1"
    found = set(open_to_all.exec("sh", "-c", script).stdout.split())
    assert [name for name in found if "/" in name or "@" in name] == []
    assert not found & {"DOCKER_HOST", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY"}
    assert not found & {"WAYLAND_DISPLAY", "VSCODE_IPC_HOOK_CLI", "REMOTE_CONTAINERS_IPC", "BROWSER"}


@pytest.mark.parametrize("program", ["sudo", "su", "doas", "pkexec", "mount", "umount", "newgrp", "passwd", "chsh"])
def test_no_program_lends_another_users_rights(open_to_all: Project, program: str) -> None:
    done = open_to_all.exec("sh", "-c", f'p=$(command -v {program}) || exit 0; [ ! -u "$p" ] && [ ! -g "$p" ]')
    assert done.stdout == ""
