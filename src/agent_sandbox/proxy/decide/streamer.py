"""Stream responses chunk by chunk, without the headers that would lead a client around the proxy."""

from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent_sandbox.policy.http.path import readings, served_as
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.exchange.lfs_batch import batch_filter
from agent_sandbox.proxy.exchange.tool_list import Room, tool_filter
from agent_sandbox.proxy.secrets.error_code import ErrorCode, codes_for
from agent_sandbox.proxy.secrets.redactable import coding_of, unpacked
from agent_sandbox.proxy.secrets.redaction import Echoes, Redactor, redact
from agent_sandbox.proxy.secrets.search import SearchBudget
from agent_sandbox.proxy.secrets.unpacking import OpenUnpackings, Unpacking
from agent_sandbox.proxy.secrets.uses import ERROR
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.header_fields import from_server
from agent_sandbox.proxy.wire.http1_head import has_body
from agent_sandbox.proxy.wire.message import Fields, RequestHead, ResponseHead, has_field, value_of

if TYPE_CHECKING:
    from agent_sandbox.proxy.exchange.tool_list import BodyFilter

# The end of the path at which a git server says where large files are.
BATCH = "/info/lfs/objects/batch"


class Streamer:
    """Returns every response; ends an exchange whose server switches to a protocol that the client did not request."""

    def __init__(self) -> None:
        self._room: Room | None = None
        self._unpackings = OpenUnpackings()

    @hook
    def responseheaders(self, exchange: Exchange, _: Tunnel) -> None:
        """Check the head of a response and return it."""
        head = exchange.response
        if head is None:
            return
        switching, fields, reason = head.status == 101, head.fields, head.reason
        if switching and not (exchange.websocket and value_of(fields, b"upgrade").lower() == "websocket"):
            why = "the server switched to a protocol that the client did not request"
            exchange.outcome = replace(exchange.outcome, reason=why)
            return
        if not (switching or 200 <= head.status < 1_000):
            # Only HTTP/2 servers: the HTTP/1 grammar and its client let no other status through.
            why = f"the server sent the status {head.status}, which ends no response"
            exchange.outcome = replace(exchange.outcome, reason=why)
            return
        if exchange.allowed:
            fields = from_server(fields, switching=switching)
        echoes, is_followed = exchange.echoes_in(head.status), has_body(exchange.method, head.status)
        if is_followed:
            exchange.received.filters = self._filters(exchange, head.status, fields)
        if echoes or exchange.received.filters:
            coding = coding_of(fields) if is_followed else b""
            exchange.received.unpacking = Unpacking(coding, self._unpackings) if coding else None
            if coding or exchange.received.filters:
                fields = (*unpacked(fields), *_framing(exchange.head, fields))
        if echoes:
            fields, reason = _redacted(fields, echoes), redact(echoes, reason)
            exchange.received.redactor = Redactor(echoes)
        if exchange.secrets and head.status >= ERROR and (codes := codes_for(exchange.secrets)):
            exchange.error_code = ErrorCode(codes, head.fields)
            exchange.received.filters = (*exchange.received.filters, exchange.error_code)
        exchange.returned = ResponseHead(head.status, reason, fields)

    def _filters(self, exchange: Exchange, status: int, fields: Fields) -> "tuple[BodyFilter, ...]":
        """Return all that changes the body of a response."""
        is_batch = exchange.secrets and 200 <= status < 300 and _is_batch(exchange.path)
        if not (exchange.shows_tool or is_batch):
            return ()
        self._room = self._room or Room()
        tools = tool_filter(fields, exchange.shows_tool, self._room) if exchange.shows_tool else None
        batch = batch_filter(exchange.host, self._room) if is_batch else None
        return tuple(one for one in (tools, batch) if one is not None)

    @hook
    def response(self, exchange: Exchange, _: Tunnel) -> None:
        """Redact trailers too, and free what the body held."""
        echoes = exchange.echoes_in(exchange.response.status) if exchange.response else exchange.echoes
        if exchange.trailers is not None and echoes:
            exchange.trailers = _redacted(exchange.trailers, echoes)
        exchange.received.close()

    @hook
    def error(self, exchange: Exchange, _: Tunnel) -> None:
        """Free what the body of an interrupted response held."""
        exchange.received.close()


def _is_batch(path: str) -> bool:
    """Return whether a git server may take this path for that of a batch."""
    return any(way.lower().endswith(BATCH) for way in served_as(readings(path)))


def _framing(request: RequestHead, fields: Fields) -> Fields:
    """Return the header for a body of unknown size; HTTP/2 needs none, and in HTTP/1.0 it ends with the connection."""
    is_needed = request.version == b"HTTP/1.1" and not has_field(fields, b"transfer-encoding")
    return ((b"Transfer-Encoding", b"chunked"),) if is_needed else ()


def _redacted(fields: Fields, echoes: Echoes) -> Fields:
    # Search all fields at once: most responses contain no echo, and no echo extends past the end of a field.
    lines = b"\n".join(chain.from_iterable(fields))
    if redact(echoes, lines) is lines:
        return fields
    budget = SearchBudget()
    return tuple((redact(echoes, name, budget), redact(echoes, value, budget)) for name, value in fields)
