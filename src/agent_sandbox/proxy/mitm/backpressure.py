"""Count bytes that are buffered: the other side does not read, is not connected yet, or they wait to be filtered.

mitmproxy gives every HTTP/2 sender an unlimited window and buffers what the receiver's window does not take. A client
that starts a download and never reads it would make the proxy buffer all of it; `session` pauses the sender instead.
"""

from collections.abc import Iterable
from typing import Any

from mitmproxy.proxy.layer import Layer
from mitmproxy.proxy.layers.http._events import RequestData, ResponseData
from mitmproxy.proxy.layers.http._http2 import Http2Connection

EVENT_BYTES = 256


def buffered_bytes(layers: Iterable[Layer]) -> int:
    """Return the number of bytes that the HTTP/2 connections inside `layers` still have to send."""
    return sum(map(_held_by, layers))


def waiting_bytes(streams: Iterable[Layer], *, to_client: bool) -> int:
    """Return the number of bytes queued in `streams` that wait for their upstream connection, or for a turn.

    Each event counts for what its objects take, too: a frame may be empty.
    """
    kind = ResponseData if to_client else RequestData
    waiting = (event for stream in streams for event in stream._paused_event_queue)  # noqa: SLF001 - no public way to count
    return sum(len(event.data) + EVENT_BYTES for event in waiting if isinstance(event, kind))


def http2_of(outermost: Layer) -> Http2Connection | None:
    """Return the HTTP/2 connection inside a layer, if there is one."""
    end: Any = outermost
    while end is not None and not isinstance(end, Http2Connection):
        end = getattr(end, "child_layer", None)
    return end


def _held_by(outermost: Layer) -> int:
    end = http2_of(outermost)
    buffers = end.h2_conn.stream_buffers if end is not None else {}
    return sum(len(piece.data) for pieces in buffers.values() for piece in pieces)
