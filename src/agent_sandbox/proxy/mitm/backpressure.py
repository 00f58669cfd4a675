"""How much is held because the other side takes no more, or is not there yet.

mitmproxy offers every sender a window without bounds and keeps what the other side's window does not take. So whoever
opens a download and never reads it would have the proxy read it all: the senders are paused instead.
"""

from collections.abc import Iterable
from typing import Any

from mitmproxy.proxy.layer import Layer
from mitmproxy.proxy.layers.http._events import RequestData
from mitmproxy.proxy.layers.http._http2 import Http2Connection


def buffered_bytes(layers: Iterable[Layer]) -> int:
    """Return what the HTTP/2 ends inside `layers` wait to send."""
    return sum(map(_held_by, layers))


def waiting_bytes(streams: Iterable[Layer]) -> int:
    """Return what has come for `streams` that wait, for their server to be reached, before they look at it."""
    waiting = (event for stream in streams for event in stream._paused_event_queue)  # noqa: SLF001 - nobody else counts it
    return sum(len(event.data) for event in waiting if isinstance(event, RequestData))


def _held_by(outermost: Layer) -> int:
    end: Any = outermost
    while not isinstance(end, Http2Connection):
        end = getattr(end, "child_layer", None)
        if end is None:
            return 0
    return sum(len(piece.data) for pieces in end.h2_conn.stream_buffers.values() for piece in pieces)
