"""Parse requests with two parsers that share nothing with ours. Where parsers differ, requests can be smuggled."""

from dataclasses import dataclass

import h11
from h11._receivebuffer import ReceiveBuffer
from mitmproxy.net.http import http1
from mitmproxy.proxy.layers.http._http1 import make_body_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One request, as somebody reads it."""

    method: str
    target: str
    hosts: tuple[str, ...]
    body: bytes
    whole: bool


def read_by_h11(data: bytes) -> list[Read]:
    """Read as h11 does: strictly."""
    found: list[Read] = []
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    while isinstance(request := server.next_event(), h11.Request):
        body, event = b"", server.next_event()
        while isinstance(event, h11.Data):
            body, event = body + bytes(event.data), server.next_event()
        whole = isinstance(event, h11.EndOfMessage)
        fields = [(bytes(name), bytes(value)) for name, value in request.headers]
        found.append(_read(bytes(request.method), bytes(request.target), fields, body, whole=whole))
        if not whole:
            return found
        server.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
        server.send(h11.EndOfMessage())
        if server.our_state is h11.MUST_CLOSE:
            rest, _ = server.trailing_data
            return [*found, *(read_by_h11(rest) if rest else [])]  # the next connection's
        server.start_next_cycle()
    return found


def read_by_mitmproxy(data: bytes) -> list[Read]:
    """Read as mitmproxy does: with patience."""
    found: list[Read] = []
    buffer = ReceiveBuffer()
    buffer += data
    while lines := buffer.maybe_extract_lines():
        request = http1.read_request_head([bytes(line) for line in lines])
        reader = make_body_reader(http1.expected_http_body_size(request))
        body = b""
        while isinstance(event := reader(buffer), h11.Data):
            body += bytes(event.data)
        whole = isinstance(event, h11.EndOfMessage)
        found.append(_read(request.data.method, request.data.path, [*request.headers.fields], body, whole=whole))
    return found


def _read(method: bytes, target: bytes, fields: list[tuple[bytes, bytes]], body: bytes, *, whole: bool) -> Read:
    hosts = tuple(value.decode("latin-1") for name, value in fields if name.lower() == b"host")
    return Read(method=method.decode("latin-1"), target=target.decode("latin-1"), hosts=hosts, body=body, whole=whole)
