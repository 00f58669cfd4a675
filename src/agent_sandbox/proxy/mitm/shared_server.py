"""Shared server connections for clients that get HTTP/2.

mitmproxy keeps the TLS of a server connection in its layers, so no other client can use it. Here the connection is
taken from the pool, or opened as the lane does, and returned after the exchange. mitmproxy sees plaintext on an open
connection that negotiated HTTP/1.1.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Self

from mitmproxy.connection import Connection, Server

from agent_sandbox.proxy.connection.byte_stream import do_nothing
from agent_sandbox.proxy.connection.sharing import WITH_BODY, asks_for_own, may_be_shared, seconds_to_keep
from agent_sandbox.proxy.connection.upstream import (
    OtherProtocolError,
    Upstream,
    from_pool,
    pool_of,
    reach,
    secrets_of,
    to_pool,
)
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.steps import Steps
from agent_sandbox.proxy.mitm.http1_client import ExchangeOver
from agent_sandbox.proxy.net.bulk_reader import LARGE_READ
from agent_sandbox.proxy.tls.contexts import HTTP1
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached
from agent_sandbox.proxy.wire.message import closes, has_field

RESET_BY_SERVER = "the server reset the connection"
REFUSES_HTTP1 = NotReached("the server refuses HTTP/1.1")


class SharedServer(Server):
    """A shared server connection, as mitmproxy sees it. `has_body`: whether the request has one."""

    def __init__(self, exchange: Exchange, address: tuple[str, int], *, has_body: bool) -> None:
        super().__init__(address=address, tls=True, alpn=HTTP1, timestamp_tls_setup=time.time())
        self.destination = address
        self.exchange = exchange
        self.has_body = has_body
        self.was_used = False
        """Whether it has carried an exchange before: the server may be closing it."""


def shared_server(exchange: Exchange, *, is_bodyless: bool) -> SharedServer | None:
    """Return the shared connection to open for an HTTP/2 request, or None if it must not use one.

    None if the request may stream in both directions, expects trailers, may authenticate its connection, or was granted
    by a person. Also for an empty POST without Content-Length: some HTTP/1.1 servers refuse it with 411.
    """
    head = exchange.forwarded
    if head is None or exchange.grants or asks_for_own(head.fields) or has_field(head.fields, b"te"):
        return None
    if not (has_field(head.fields, b"content-length") or (is_bodyless and head.method not in WITH_BODY)):
        return None
    return SharedServer(exchange, (head.host, head.port), has_body=not is_bodyless)


class SharedStream:
    """An asyncio reader and writer for a shared connection. After `release`, it does nothing."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        read_size: Callable[[], int] = lambda: LARGE_READ,
        on_reset: Callable[[], None] = do_nothing,
    ) -> None:
        self._upstream: Upstream | None = upstream
        self._read_size = read_size
        self._on_reset = on_reset
        self._is_reading = False
        self.is_early = False

    @property
    def transport(self) -> Self:
        """The object whose `abort` mitmproxy calls."""
        return self

    @property
    def at_rest(self) -> Upstream | None:
        """The connection, if it is open, and nothing is being read or unread."""
        is_usable = self._upstream is not None and self._upstream.stream.is_usable
        return self._upstream if is_usable and not self._is_reading else None

    def release(self) -> None:
        """Never touch the connection again."""
        self._upstream = None

    async def read(self, _: int) -> bytes:
        """Return what has arrived, b"" at the end."""
        if self._upstream is None:
            return b""
        stream, size = self._upstream.stream, self._read_size()
        if size < LARGE_READ:
            await asyncio.sleep(0)  # reading what has arrived does not yield: let other tasks run
        self._is_reading = True
        try:
            while not stream.buffer and await stream.more():
                pass
        finally:
            self._is_reading = False
        self.is_early |= not stream.has_sent_all
        if data := stream.buffer.maybe_extract_at_most(size):
            return bytes(data)
        if stream.is_reset:
            self._on_reset()
        return b""

    def write(self, data: bytes) -> None:
        """Send `data`."""
        if self._upstream is not None:
            self._upstream.stream.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more. Raises `ConnectionError` if the connection is lost."""
        if self._upstream is not None:
            await self._upstream.stream.drain()

    def is_closing(self) -> bool:
        """Return whether the connection was released."""
        return self._upstream is None

    def write_eof(self) -> None:
        """Half-close the connection."""
        if self._upstream is not None:
            self._upstream.stream.finish()

    def close(self) -> None:
        """Close the connection, unless it was released."""
        if self._upstream is not None:
            self._upstream.drop()

    def abort(self) -> None:
        """Reset the connection, unless it was released."""
        if self._upstream is not None:
            self._upstream.stream.reset()

    def get_extra_info(self, _: str) -> None:
        """Return nothing: `abort` resets."""


class Sharing:
    """Opens the connections of one session, and gives them to the pool."""

    def __init__(self, engine: Engine, tunnel: Tunnel) -> None:
        self._engine = engine
        self._tunnel = tunnel
        self._steps = Steps(engine.hooks, tunnel, engine.record)
        self._streams: dict[Connection, SharedStream] = {}

    def allows(self, server: SharedServer) -> bool:
        """Return whether the server is not known to lack HTTP/1.1."""
        return server.destination not in pool_of(self._engine).without_http1

    async def open(self, server: SharedServer, *, read_size: Callable[[], int] = lambda: LARGE_READ) -> SharedStream:
        """Take a connection from the pool, or open one.

        Raises `DialError`; its reason is `REFUSES_HTTP1` if the server does not choose HTTP/1.1.
        """
        upstream = from_pool(server.exchange, self._tunnel, self._engine, do_nothing)
        server.was_used = upstream is not None
        if upstream is None:
            upstream = await self._reach(server)
        upstream.secrets = upstream.secrets or secrets_of(server.exchange)
        stream = SharedStream(upstream, read_size=read_size, on_reset=lambda: setattr(server, "error", RESET_BY_SERVER))
        self._streams[server] = stream
        return stream

    async def _reach(self, server: SharedServer) -> Upstream:
        try:
            upstream = await reach(server.exchange, self._tunnel, self._engine, self._steps, do_nothing)
        except OtherProtocolError:
            upstream = None
        if upstream is not None and upstream.stream.alpn == HTTP1:
            return upstream
        if upstream is not None:  # some servers speak HTTP/2 although they did not choose it
            upstream.drop()
        pool_of(self._engine).note_without_http1(*server.destination)
        raise DialError(REFUSES_HTTP1)

    def close(self, server: SharedServer) -> None:
        """Close a connection that was not given to the pool."""
        if (stream := self._streams.pop(server, None)) is not None:
            stream.close()

    def over(self, done: ExchangeOver) -> None:
        """Give a connection to the pool after its exchange, if others may use it. Otherwise, mitmproxy closes it."""
        server = done.connection
        stream = self._streams.get(server)
        if stream is None or not isinstance(server, SharedServer):
            return
        head = done.head
        shares = may_be_shared(server.exchange, head, has_body=server.has_body, is_early=stream.is_early)
        if not shares or closes(head.version, head.fields):
            return
        if (upstream := stream.at_rest) is not None:
            to_pool(upstream, self._engine, seconds_to_keep(head.fields))
            stream.release()
