"""A proxy that stops first writes audit records for everything that is open."""

import socket
import ssl
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from client_hellos import hello
from proxy_pair import start_pair
from proxy_stand import get, read_all, read_answer, read_head
from websocket_client import echo, frame, handshake

POLICY = (
    "version: 1\ndomains: [{host: allowed.test, inspect: false}, {host: b.wild.test, inspect: false}, a.wild.test]\n"
)
SLOW = """
import asyncio
from agent_sandbox.proxy.upstream import dialler
class SlowDialler(dialler.Dialler):
    async def dial(self, host, port):
        await asyncio.sleep(60 if host == "b.wild.test" else 0)
        return await super().dial(host, port)
dialler.Dialler = SlowDialler
"""
UPLOAD = b"POST /silent HTTP/1.1\r\nHost: a.wild.test\r\nContent-Length: 1000\r\n\r\nSECRETS"


def test_writes_a_record_for_everything_that_is_open_when_the_proxy_stops(tmp_path: Path) -> None:
    with start_pair(tmp_path, POLICY, sabotage=SLOW) as pair:
        proxy = pair.proxy
        pair.server.answers |= {"/ws": echo, "/silent": stay_silent}
        context = ssl.create_default_context(cafile=proxy.upstream_ca)
        with (
            proxy.tunnel("allowed.test") as tunnel,
            context.wrap_socket(tunnel, server_hostname="allowed.test") as relayed,
            proxy.tunnel("b.wild.test") as dialled,
            proxy.tunnel("a.wild.test"),
            proxy.tls("a.wild.test") as chat,
            proxy.tls("a.wild.test") as upload,
        ):
            relayed.sendall(get("/x", "allowed.test").replace(b"Connection: close\r\n", b""))
            assert read_answer(relayed)[0] == 200
            dialled.sendall(hello(b"b.wild.test"))
            chat.sendall(handshake(host="a.wild.test"))
            read_head(chat)
            chat.sendall(frame(b"secret data", masked=True))
            chat.recv(100)
            upload.sendall(UPLOAD)
            pair.server.wait_for(3)
            proxy.stop()
        ended = {
            line["event"] + line["path"]: line["bytes_out"] for line in proxy.lines if line["host"] != "b.wild.test"
        }
        assert ended.pop("tunnel") > 500
        assert ended == {"request/ws": 0, "websocket/ws": 11, "request/silent": 7}
        assert [line["event"] for line in proxy.lines if line["host"] == "b.wild.test"] == ["tunnel"]
        assert (proxy.folder / "state/log/traffic.jsonl").read_text().count("\n") == len(proxy.lines) == 5
        assert [line for line in proxy.errors.splitlines() if not line.startswith("WARNING: --resolve")] == []


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
def test_stops_without_a_message_whatever_its_connections_do(tmp_path: Path, answer: bytes) -> None:
    """Some are silent, half a request, refused and still open, answered in part, or only just accepted."""
    with start_pair(tmp_path, POLICY) as pair, ExitStack() as stack:
        proxy = pair.proxy

        def begin(stream: socket.socket, _: bytes) -> None:
            stream.sendall(answer)
            read_all(stream)

        pair.server.answers["/silent"] = begin
        for said in (b"", b"CON", b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n", b"GET http://evil.test/ HTTP/1.1\r\n\r\n"):
            stack.enter_context(proxy.connect()).sendall(said)
        stack.enter_context(proxy.tls("a.wild.test")).sendall(UPLOAD)
        pair.server.wait_for(1)
        asked = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        asked.connect(proxy.ready["control"])
        for _ in range(20):
            stack.enter_context(proxy.connect())
        proxy.stop()
        assert [line for line in proxy.errors.splitlines() if not line.startswith("WARNING: --resolve")] == []


def stay_silent(stream: socket.socket, _: bytes) -> None:
    read_all(stream)
