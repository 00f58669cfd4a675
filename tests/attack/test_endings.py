"""How a connection ends: over TLS a client is told that it is the end, and never that a cut was one."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING

import pytest

from proxy_stand import get

if TYPE_CHECKING:
    from attack_stand import Stand

BODY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nas long as it lasts"


def ask(stand: Stand, request: bytes) -> tuple[bytes, bool]:
    """Ask as OpenSSL 3 does by itself; return what came, and whether its end was told."""
    context = ssl.create_default_context(cafile=stand.proxy.ready["ca"])
    got = b""
    with (
        stand.proxy.tunnel("allowed.test", 443) as connection,
        context.wrap_socket(connection, server_hostname="allowed.test", suppress_ragged_eofs=False) as stream,
    ):
        stream.settimeout(5)
        stream.sendall(request)
        try:
            while data := stream.recv(65536):
                got += data
        except (ssl.SSLEOFError, ConnectionResetError):
            return got, False
    return got, True


def close(stream: socket.socket, _: bytes) -> None:
    stream.sendall(BODY)


def answer_early(stream: socket.socket, body: bytes) -> None:
    while len(body) < 4:
        body += stream.recv(4)  # closing before it has arrived would reset the connection
    stream.sendall(BODY)


def reset(stream: socket.socket, _: bytes) -> None:
    stream.sendall(BODY)
    time.sleep(0.2)  # or the reset overtakes what was sent
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stop_early(stream: socket.socket, _: bytes) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot a hundred")


def test_an_answer_that_ends_with_its_connection_is_whole(stand: Stand) -> None:
    stand.allowed.answers["/api/ending"] = close
    got, told = ask(stand, get("/api/ending", "allowed.test"))
    assert got.endswith(b"as long as it lasts")
    assert told


def test_a_response_before_the_end_of_its_request_ends_with_its_server(stand: Stand) -> None:
    stand.allowed.answers["/api/ending"] = answer_early
    got, told = ask(stand, get("/api/ending", "allowed.test", "Content-Length: 100", method="POST") + b"part")
    assert got.endswith(b"as long as it lasts")
    assert told
    line = stand.proxy.line(method="POST", path="/api/ending")
    assert (line["status"], line["reason"], line["bytes_in"], line["bytes_out"]) == (
        *(200, "allowed by policy.yaml:5"),
        *(19, 4),
    )


@pytest.mark.parametrize("sent", [get("/api/../x", "allowed.test"), get("/no", "allowed.test"), b"no request\r\n\r\n"])
def test_a_refusal_is_whole(stand: Stand, sent: bytes) -> None:
    got, told = ask(stand, sent)
    assert got.startswith(b"HTTP/1.1 40")
    assert told


@pytest.mark.parametrize("answer", [reset, stop_early])
def test_a_cut_is_not_taken_for_the_end(stand: Stand, answer: object) -> None:
    stand.allowed.answers["/api/ending"] = answer  # type: ignore[assignment] # one of two functions
    got, told = ask(stand, get("/api/ending", "allowed.test"))
    assert got.startswith(b"HTTP/1.1 200 ")
    assert not told
