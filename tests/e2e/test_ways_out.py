"""Ways out other than HTTP, each tried from inside while the agent's network leads to the stand-in for the internet.

The network is ordinary on purpose: a packet that the firewall lets through reaches the stand-in and nothing else.
"""

import json
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from engine import run
from prepared import build_project
from real_stacks import STANDIN_ADDRESS, Project, Projects, trust

REFUSED = ("ConnectionRefusedError", "PermissionError", "Network is unreachable", "No route to host")
# Print the kernel's error, and whether it came within two seconds.
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
# The refusal of a datagram arrives after it is sent: the second call raises the error.
SOCKET = "c = s.socket(s.AF_INET, s.SOCK_DGRAM); c.settimeout(1); c.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1); "
DATAGRAM = f"{SOCKET}c.connect((sys.argv[1], int(sys.argv[2]))); c.send(b'x'); c.recv(1)"
SEND_TO = f"{SOCKET}c.sendto(b'x', (sys.argv[1], int(sys.argv[2])))"
PROXY = "the proxy"
# Everything that a project file can add to the network and the agent, except a browser, which takes minutes to build.
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


FILES = {"service.Dockerfile": "FROM debian:trixie-slim\nRUN mkdir /data\n", "sandbox.yaml": json.dumps(DAY)}


def prepare() -> None:
    build_project("claude", files={f".devcontainer/{name}": text for name, text in FILES.items()})


@pytest.fixture(scope="module")
def open_to_all(projects: Projects) -> Iterator[Project]:
    """A stack with all of these settings, whose network leads to the stand-in: only the firewall protects it."""
    project = projects.make("ways", "claude")
    for name, text in FILES.items():
        (project.path / ".devcontainer" / name).write_text(text)
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
def test_refuses_direct_tcp_connections(open_to_all: Project, port: int) -> None:
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
        (PROXY, 443),  # a client would try HTTP/3 here, because names resolve to the proxy
        (PROXY, 123),
    ],
)
def test_refuses_datagrams(open_to_all: Project, code: str, address: str, port: int) -> None:
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
def test_raw_sockets_cannot_be_opened(open_to_all: Project, code: str) -> None:
    assert attempt(open_to_all, code).startswith("PermissionError")


def test_no_icmp_echo_request_goes_out(open_to_all: Project) -> None:
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


def test_refuses_connections_to_the_gateways(open_to_all: Project) -> None:
    names = [*open_to_all.containers()["firewall"]["NetworkSettings"]["Networks"]]
    networks = json.loads(run("docker", "network", "inspect", *names).stdout)
    # The first address of the bridge, even if the engine reports no gateway.
    gateways = [str(ip_network(one["IPAM"]["Config"][0]["Subnet"])[1]) for one in networks]
    assert len(gateways) == 3
    for gateway in gateways:
        for port in ("22", "80", "2375", "11434"):
            assert attempt(open_to_all, CONNECT, gateway, port).startswith("ConnectionRefusedError")


@pytest.mark.parametrize(
    "data", [b"\x05\x01\x00", b"\x05\x02\x00\x02", b"\x04\x01\x00\x50\xc6\x33\x64\x82x\x00", b"SSH-2.0-x\r\n"]
)
def test_the_explicit_proxy_does_not_speak_socks(open_to_all: Project, data: bytes) -> None:
    speak = (
        f"h, p = __import__('os').environ['AGENT_SANDBOX_PROXY'].split(':'); c = s.create_connection((h, int(p)), 5); "
        f"c.send({data!r}); c.shutdown(s.SHUT_WR); print(c.recv(99)[:12])"
    )
    said = attempt(open_to_all, speak)
    assert said.startswith(("b'HTTP/1.1 400'", "b''", "ConnectionResetError")), said


def test_etc_hosts_is_read_only_and_the_proxy_resolves_names_itself(open_to_all: Project) -> None:
    assert open_to_all.exec("sh", "-c", "echo 198.51.100.9 allowed.test >> /etc/hosts", check=False).returncode != 0
    status, _ = open_to_all.curl("https://allowed.test/by-name", "--resolve", "allowed.test:443:198.51.100.9")
    assert status == 200


@pytest.mark.parametrize("name", ["localhost", "proxy", "firewall", "agent", "db", "host.docker.internal", "mitm.it"])
@pytest.mark.parametrize("port", [80, 443, 8080, 8081])
def test_the_proxy_denies_localhost_container_names_and_the_docker_host(
    open_to_all: Project, name: str, port: int
) -> None:
    scheme = "https" if port == 443 else "http"
    # Use the proxy even for localhost, which NO_PROXY excludes.
    status, said = open_to_all.curl(f"{scheme}://{name}:{port}/", "--noproxy", "")
    assert status in {403, 0}, said
    assert status == 403 or "403" in said


def test_the_agent_container_has_no_unix_socket_and_no_variable_names_a_socket(open_to_all: Project) -> None:
    # The socket of a Docker engine, an SSH agent, a display, a message bus or an editor, under any name and path.
    script = "find / -path /proc -prune -o -type s -print 2>/dev/null; tail -n +2 /proc/net/unix; env | cut -d= -f1"
    found = set(open_to_all.exec("sh", "-c", script).stdout.split())
    assert [name for name in found if "/" in name or "@" in name] == []
    assert not found & {"DOCKER_HOST", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY"}
    assert not found & {"WAYLAND_DISPLAY", "VSCODE_IPC_HOOK_CLI", "REMOTE_CONTAINERS_IPC", "BROWSER"}


@pytest.mark.parametrize("program", ["sudo", "su", "doas", "pkexec", "mount", "umount", "newgrp", "passwd", "chsh"])
def test_sudo_mount_and_similar_programs_are_not_setuid_or_setgid(open_to_all: Project, program: str) -> None:
    done = open_to_all.exec("sh", "-c", f'p=$(command -v {program}) || exit 0; [ ! -u "$p" ] && [ ! -g "$p" ]')
    assert done.stdout == ""
