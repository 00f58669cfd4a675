"""Responses that the server does not finish must not look complete to the client."""

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import get

POLICY = "version: 1\ndomains: [allowed.test]\n"
RESET = struct.pack("ii", 1, 0)
HEADS = {
    "sized": b"Content-Length: 100\r\n\r\nhalf",
    "chunked": b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    "endless": b"\r\nhalf",
}


def breaking(head: bytes) -> Callable[[socket.socket, bytes], None]:
    """Return a handler that resets the connection after `head`."""

    def answer(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\n" + head)
        time.sleep(0.1)  # an immediate reset would discard unread data
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    return answer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy, and a server that resets its response at /sized, /chunked and /endless."""
    with start_pair(tmp_path_factory.mktemp("truncation"), POLICY) as pair:
        pair.server.answers |= {f"/{name}": breaking(head) for name, head in HEADS.items()}
        yield pair


def read(stream: socket.socket) -> tuple[bytes, str]:
    """Return what came, and how it ended."""
    came = b""
    try:
        while data := stream.recv(65536):
            came += data
    except OSError as error:
        return came, type(error).__name__
    return came, "closed"


@pytest.mark.parametrize("secure", [True, False], ids=["https", "http"])
@pytest.mark.parametrize("how", HEADS)
def test_a_truncated_response_does_not_look_complete(pair: Pair, how: str, *, secure: bool) -> None:
    pair.proxy.forget()
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(pair.proxy.tls("allowed.test") if secure else pair.proxy.connect())
        if isinstance(stream, ssl.SSLSocket):
            vars(stream)["suppress_ragged_eofs"] = False  # as in all clients but Python
        stream.sendall(get(f"/{how}" if secure else f"http://allowed.test/{how}", "allowed.test"))
        came, ended = read(stream)
    assert came.startswith(b"HTTP/1.1 200 OK\r\n")
    if how == "sized":
        assert b"content-length: 100\r\n" in came.lower()
    if how == "chunked":
        assert not came.endswith(b"0\r\n\r\n")
    if how == "endless":
        assert ended != "closed"
    assert "aborted: " in pair.proxy.line(path=f"/{how}")["reason"]


@pytest.mark.parametrize("how", HEADS)
def test_a_truncated_response_resets_its_http2_stream(pair: Pair, how: str) -> None:
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        number = client.send(*fields(f"/{how}"))
        assert (client.status(number), client.status(number)) == ("200", "reset")
