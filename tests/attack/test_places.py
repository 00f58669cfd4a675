"""`host_services`: the only way to a private address, and only to the named one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_server import Capture
from proxy_stand import ProxyProcess, get, read_answer

POLICY = """\
version: 1
domains: [public.test]
host_services:
  ollama: {to: "host:11434", methods: [POST], path: {prefix: /api/}}
  tracker: {to: "tracker.corp.internal:8080"}
  lab: {to: 10.20.0.0/24, ports: [9090]}
"""
# Names in a private network where every private address leads to the capture server.
WORLD = """
import asyncio
from agent_sandbox.proxy.upstream import dialler
NAMES = {{
    "host.docker.internal": "172.17.0.1",
    "ollama": "10.9.9.9",
    "tracker.corp.internal": "10.1.2.3",
    "public.test": "10.1.2.3",
    "10.20.0.7": "10.20.0.7",
    "10.20.1.7": "10.20.1.7",
}}
async def resolve(host, port):
    return [NAMES[host]]
async def connect(address, port):
    return await asyncio.open_connection("127.0.0.1", {port})
dialler.Dialler.__init__.__kwdefaults__.update(resolve=resolve, connect=connect)
"""


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProxyProcess, Capture]]:
    """A proxy in that network."""
    with Capture() as inside:
        sabotage = WORLD.format(port=inside.port)
        with ProxyProcess(tmp_path_factory.mktemp("places"), POLICY, sabotage=sabotage) as proxy:
            yield proxy, inside


@pytest.mark.parametrize(
    ("method", "authority", "path"),
    [
        ("POST", "ollama:11434", "/api/chat"),
        ("GET", "tracker.corp.internal:8080", "/x"),
        ("GET", "10.20.0.7:9090", "/"),
    ],
)
def test_reaches_a_host_service_that_the_policy_names(
    stand: tuple[ProxyProcess, Capture], method: str, authority: str, path: str
) -> None:
    proxy, inside = stand
    inside.forget()
    answer = proxy.say(get(f"http://{authority}{path}", authority, "Content-Length: 0", method=method))
    assert answer.startswith(b"HTTP/1.1 200")
    assert [request.field("host") for request in inside.requests] == [[authority]]


@pytest.mark.parametrize(
    ("authority", "path"),
    [
        ("ollama:11434", "/admin"),
        ("ollama:11435", "/api/chat"),
        ("ollama", "/api/chat"),
        ("host.docker.internal:11434", "/api/chat"),
        ("172.17.0.1:11434", "/api/chat"),
        ("host:11434", "/api/chat"),
        ("tracker:8080", "/x"),
        ("tracker.corp.internal", "/x"),
        ("tracker.corp.internal:22", "/x"),
        ("10.1.2.3:8080", "/x"),
        ("10.20.1.7:9090", "/"),
        ("10.20.0.7:9091", "/"),
        ("public.test", "/"),
        ("a.tracker.corp.internal:8080", "/x"),
    ],
)
def test_denies_other_hosts_ports_and_paths(stand: tuple[ProxyProcess, Capture], authority: str, path: str) -> None:
    proxy, inside = stand
    inside.forget()
    answer = proxy.say(get(f"http://{authority}{path}", authority, "Content-Length: 0", method="POST"))
    assert answer[9:12] in (b"400", b"403")
    assert (bytes(inside.raw), inside.connections) == (b"", 0)


def test_opens_a_new_connection_after_a_reload_changes_where_a_host_service_leads(
    stand: tuple[ProxyProcess, Capture],
) -> None:
    proxy, inside = stand
    inside.forget()
    request = get("http://ollama:11434/api/chat", "ollama:11434", "Content-Length: 0", method="POST")
    request = request.replace(b"Connection: close\r\n", b"")
    with proxy.connect() as connection:
        for _ in range(2):
            connection.sendall(request)
            assert read_answer(connection)[0] == 200
        assert inside.connections == 1
        proxy.reload(POLICY + "  another: {to: 'ollama:11434'}\n")
        connection.sendall(request)
        assert read_answer(connection)[0] == 200
    assert inside.connections == 2


OURS = """
from agent_sandbox.proxy.upstream import dialler
# In a private network, a host service can lead to any address, even the proxy's own.
dialler.why_forbidden = lambda address: None
async def resolve(host, port):
    return ["127.0.0.1"]
dialler.Dialler.__init__.__kwdefaults__.update(resolve=resolve)
"""


@pytest.mark.parametrize("entrance", ["listening", "tls", "http"])
def test_denies_a_host_service_that_leads_to_the_proxy_itself(tmp_path: Path, entrance: str) -> None:
    with ProxyProcess(tmp_path, "version: 1\n", sabotage=OURS) as proxy:
        _, port = proxy.entrance(entrance)
        proxy.reload(f"version: 1\nhost_services:\n  loop: {{to: 'loop.internal:{port}'}}\n")
        proxy.forget()
        answer = proxy.say(get(f"http://loop.internal:{port}/", f"loop.internal:{port}"))
        assert answer.startswith(b"HTTP/1.1 403")
        line = proxy.line(event="request")
        assert (line["decision"], line["cause"]) == ("deny", "address")
        assert line["reason"] == f"loop.internal resolves to 127.0.0.1, where port {port} is the proxy itself"
        assert sum(one["event"] == "request" for one in proxy.lines) == 1  # the record of the reload can come late
