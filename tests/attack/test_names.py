"""Data in host names, and names that later resolve elsewhere: rows D1, D4 and D7 of the attack list."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dns.message
import dns.query
import pytest

from capture_server import Capture
from client_hellos import hello
from proxy_stand import ProxyProcess, get, read_all

POLICY = 'version: 1\ndomains: [{host: allowed.test, rules: [{path: {prefix: /api/}}]}, "*.wild.test"]\n'
DATA = "ojugs43f".ljust(60, "x")
# A resolver that records each name and returns the addresses in a file. All connections lead to the server here.
WATCHED = """
import asyncio, pathlib, socket
from agent_sandbox.proxy.upstream import dialler
folder = pathlib.Path("{folder}")
def resolve(host, port, **_):
    with (folder / "asked").open("a") as file:
        file.write(host + " ")
    return [(0, 0, 0, "", (address, port)) for address in (folder / "answer").read_text().split()]
async def connect(address, port):
    with (folder / "dialled").open("a") as file:
        file.write(address + " ")
    return await asyncio.open_connection("127.0.0.1", {port})
dialler.socket.getaddrinfo = resolve
dialler.Dialler.__init__.__kwdefaults__.update(connect=connect)
"""


@dataclass
class Watched:
    """A proxy whose resolver is recorded, and the server that all names lead to."""

    proxy: ProxyProcess
    capture: Capture
    folder: Path

    def answers(self, *addresses: str) -> None:
        """Set the addresses of every name, and clear the records."""
        (self.folder / "answer").write_text(" ".join(addresses))
        (self.folder / "asked").write_text("")
        (self.folder / "dialled").write_text("")
        self.capture.forget()
        self.proxy.forget()

    def noted(self, what: str) -> list[str]:
        return (self.folder / what).read_text().split()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Start both."""
    folder = tmp_path_factory.mktemp("names")
    with Capture() as capture:
        sabotage = WATCHED.format(folder=folder, port=capture.port)
        with ProxyProcess(folder, POLICY, sabotage=sabotage) as proxy:
            yield Watched(proxy, capture, folder)


def ask_by_tls(proxy: ProxyProcess, name: str, path: str = "/") -> None:
    context = ssl.create_default_context(cafile=proxy.ready["ca"])
    with (
        proxy.connect(entrance="tls") as connection,
        context.wrap_socket(connection, server_hostname=name) as stream,
    ):
        stream.sendall(get(path, name))
        read_all(stream)


def test_does_not_resolve_the_names_of_denied_requests(watched: Watched) -> None:
    watched.answers("203.0.113.139")
    proxy, name = watched.proxy, f"{DATA}.evil.test"
    place, port = proxy.entrance("dns")
    for ask in (dns.query.udp, dns.query.tcp):
        for asked in (name, "allowed.test", f"{DATA}.wild.test"):  # allowed names are not resolved before they are used
            ask(dns.message.make_query(asked, "A"), place, port=port, timeout=30)
    proxy.say(get(f"http://{name}/", name))
    proxy.say(get("http://allowed.test/denied", "allowed.test"))
    proxy.ask(name, get("/", name))
    proxy.ask("allowed.test", get("/denied", "allowed.test"))
    with proxy.tunnel("allowed.test") as tunnel:
        tunnel.sendall(hello(name.encode()))
        read_all(tunnel)
    ask_by_tls(proxy, name)
    ask_by_tls(proxy, "allowed.test", "/denied")
    with proxy.connect(entrance="http") as connection:
        connection.sendall(get("/", name))
        read_all(connection)
    assert (watched.noted("asked"), watched.noted("dialled")) == ([], [])
    assert watched.capture.connections == 0
    proxy.say(get("http://allowed.test/api/x", "allowed.test"))
    assert watched.noted("asked") == ["allowed.test"]


def test_records_names_below_a_wildcard_and_resolves_them_only_for_a_request(watched: Watched) -> None:
    watched.answers("203.0.113.139")
    name = f"{DATA}.{DATA}.{DATA}.wild.test"
    place, port = watched.proxy.entrance("dns")
    dns.query.udp(dns.message.make_query(name, "A"), place, port=port, timeout=30)
    assert watched.proxy.line(event="dns", host=name)["decision"] == "allow"
    assert watched.noted("asked") == []
    watched.proxy.say(get(f"http://{name}/", name))
    assert watched.proxy.line(event="request", host=name)["decision"] == "allow"
    assert watched.noted("asked") == [name]


@pytest.mark.parametrize("inner", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "203.0.113.139 10.0.0.1"])
def test_denies_a_name_that_later_resolves_to_a_private_address(watched: Watched, inner: str) -> None:
    watched.answers("203.0.113.139")
    assert watched.proxy.say(get("http://allowed.test/api/1", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert watched.noted("dialled") == ["203.0.113.139"]
    watched.answers(*inner.split())
    assert watched.proxy.say(get("http://allowed.test/api/2", "allowed.test")).startswith(b"HTTP/1.1 403")
    line = watched.proxy.line(event="request", path="/api/2")
    assert (line["decision"], line["cause"]) == ("deny", "address")
    assert (watched.noted("dialled"), watched.capture.connections) == ([], 0)
