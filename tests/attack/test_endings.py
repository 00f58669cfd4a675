"""How a connection ends: TLS close_notify after a complete response, and none after a truncated one."""

import socket
import ssl
import struct
import time

import pytest

from attack_stand import Stand
from proxy_stand import get

BODY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nas long as it lasts"


def ask(stand: Stand, request: bytes) -> tuple[bytes, bool]:
    """Send a request. Return what came, and whether the connection ended with close_notify."""
    context = ssl.create_default_context(cafile=stand.proxy.ready["ca"])
    got = b""
    with (
        stand.proxy.tunnel("allowed.test", 443) as connection,
        context.wrap_socket(connection, server_hostname="allowed.test", suppress_ragged_eofs=False) as stream,
    ):
        stream.settimeout(30)
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
        body += stream.recv(4)  # closing before the body has arrived would reset the connection
    stream.sendall(BODY)


def reset(stream: socket.socket, _: bytes) -> None:
    stream.sendall(BODY)
    time.sleep(0.2)  # or the reset overtakes the data
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stop_early(stream: socket.socket, _: bytes) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot a hundred")


def test_a_response_delimited_by_connection_close_ends_with_close_notify(stand: Stand) -> None:
    stand.allowed.answers["/api/ending"] = close
    got, told = ask(stand, get("/api/ending", "allowed.test"))
    assert got.endswith(b"as long as it lasts")
    assert told


def test_an_early_response_ends_with_close_notify_when_its_server_closes(stand: Stand) -> None:
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
def test_an_error_response_ends_with_close_notify(stand: Stand, sent: bytes) -> None:
    got, told = ask(stand, sent)
    assert got.startswith(b"HTTP/1.1 40")
    assert told


@pytest.mark.parametrize("answer", [reset, stop_early])
def test_a_truncated_response_ends_without_close_notify(stand: Stand, answer: object) -> None:
    stand.allowed.answers["/api/ending"] = answer  # type: ignore[assignment] # one of two functions
    got, told = ask(stand, get("/api/ending", "allowed.test"))
    assert got.startswith(b"HTTP/1.1 200 ")
    assert not told
