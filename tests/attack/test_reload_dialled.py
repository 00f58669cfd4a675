"""Server connections that are being opened during a reload follow the new policy."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_server import Capture
from http2client import Http2Client, fields
from proxy_pair import HELD, Pair, hold_dialling, start_pair
from proxy_stand import ProxyProcess, get, read_all, read_answer

BOTH = "version: 1\ndomains: [allowed.test, a.wild.test, b.wild.test]\n"
NONE = "version: 1\ndomains: [c.test]\n"
# The Docker host is 127.0.0.1. The host with the name of the host service is 127.0.0.2.
TWO_PLACES = """
import asyncio, pathlib, sys
from agent_sandbox.proxy.upstream import dialler
dialler.why_forbidden = lambda address: None
async def resolve(host, port):
    if host != "host.docker.internal":
        return ["127.0.0.2"]
    while held.exists():
        await asyncio.sleep(0.01)
    return ["127.0.0.1"]
held = pathlib.Path(sys.argv[2].partition("=")[2]).with_name("held")
dialler.Dialler.__init__.__kwdefaults__["resolve"] = resolve
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy that can be paused while it connects, and the server behind all its hosts."""
    with start_pair(tmp_path_factory.mktemp("dialled"), BOTH, sabotage=HELD) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with everything allowed and empty records."""
    started.proxy.reload(BOTH)
    started.forget()
    return started


def test_does_not_connect_to_a_host_that_is_no_longer_allowed(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as gone, hold_dialling(pair.proxy):
        gone.sendall(get("/x", "allowed.test"))
        time.sleep(0.05)
        pair.proxy.reload(NONE)
        assert read_all(gone).startswith(b"HTTP/1.1 403")
    assert pair.server.connections == 0


def test_denies_a_waiting_request_before_its_server_connection_is_ready(pair: Pair) -> None:
    with pair.proxy.tls("b.wild.test") as gone, hold_dialling(pair.proxy):
        gone.sendall(get("/x", "b.wild.test"))
        time.sleep(0.05)
        pair.proxy.reload(NONE)
        answer = read_all(gone)
    assert answer.startswith(b"HTTP/1.1 403")
    wanted = "the policy was reloaded: no rule allows host b.wild.test"
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["reason"] == wanted
    line = pair.proxy.line(event="request", host="b.wild.test")
    assert (line["decision"], line["status"], line["reason"]) == ("deny", 403, wanted)


def test_denies_only_the_waiting_http2_stream_that_is_no_longer_allowed(pair: Pair) -> None:
    with pair.proxy.tls("b.wild.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        with hold_dialling(pair.proxy):
            gone, kept = (client.send(*fields(path, "b.wild.test")) for path in ("/gone", "/kept"))
            time.sleep(0.05)
            pair.proxy.reload("version: 1\ndomains: [{host: b.wild.test, rules: [{path: {exact: /kept}}]}]\n")
            assert client.status(gone) == "403"
        assert client.status(kept) == "200"
    assert [request.line for request in pair.server.requests] == ["GET /kept HTTP/1.1"]
    line = pair.proxy.line(path="/gone")
    assert (line["decision"], line["status"]) == ("deny", 403)


def test_sends_no_request_to_the_old_address_of_a_host_service(tmp_path: Path) -> None:
    with Capture() as old, socket.create_server(("127.0.0.2", old.port)) as new:
        reached: list[bytes] = []
        threading.Thread(target=answer_once, args=(new, reached), daemon=True).start()
        place = "version: 1\nhost_services:\n  ollama: {{to: '{to}:{port}'}}\n"
        request = f"GET http://ollama:{old.port}/%s HTTP/1.1\r\nHost: ollama:{old.port}\r\n\r\n"
        with (
            ProxyProcess(tmp_path, place.format(to="host", port=old.port), sabotage=TWO_PLACES) as proxy,
            proxy.connect() as connection,
            hold_dialling(proxy),
        ):
            connection.sendall((request % "first").encode())
            time.sleep(0.05)
            proxy.reload(place.format(to="ollama", port=old.port))
            status, body = read_answer(connection)
            assert (status, json.loads(body)["reason"]) == (
                403,
                f"the policy was reloaded: ollama:{old.port} now leads to a different address",
            )
            connection.sendall((request % "second").encode())
            assert read_answer(connection)[0] == 200
        assert (old.connections, [head.split()[1] for head in reached]) == (0, [b"/second"])


def answer_once(listening: socket.socket, reached: list[bytes]) -> None:
    stream, _ = listening.accept()
    with stream:
        reached.append(stream.recv(4096))
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        read_all(stream)
