"""A stage with HTTP/2 clients too. It uses no TLS; `chosen` sets the protocol that servers negotiate."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, override

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.mitm import http1_client, http2_client
from agent_sandbox.proxy.mitm.session import Session
from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.tunnel import Tunnel
from http2client import Http2Streams
from http2client import fields as request_fields
from lane_stage import OK, SECONDS, LaneStage, Pair, pair_of_sockets
from layer_harness import without_tls

GONE = "gone"


class Http2Talk(Http2Streams):
    """An HTTP/2 client over asyncio's streams."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.reader, self.writer = pair
        self.flush()

    def flush(self) -> None:
        """Send what there is to send."""
        self.writer.write(self.h2.data_to_send())

    def send(
        self, path: str, *fields: tuple[str, str], method: str = "GET", body: bytes | None = None, ends: bool = True
    ) -> int:
        """Send a request, or its beginning; return its stream."""
        number = self.begin([*request_fields(path, "a.test", method, "http"), *fields], body, ends=ends)
        self.flush()
        return number

    async def answer(self, number: int) -> tuple[str, bytes]:
        """Wait for the end of a stream. Return the status and the body, or `GONE` if it did not end well."""
        async with asyncio.timeout(SECONDS):
            while not self.is_over(number):
                try:
                    self.take(await self.reader.read(65536))
                except OSError:
                    return GONE, b""
                self.flush()
        how, body = self.outcome(number)
        return (how, body) if number in self.ended and how.isdecimal() else (GONE, b"")


class Http2Stage(LaneStage):
    """A stage with clients of both kinds."""

    @override
    def __init__(self, policy: Policy, *addons: object, **options: Any) -> None:
        http1_client.install()
        http2_client.install()
        super().__init__(policy, *addons, **options)
        self.http2_sessions: list[Session] = []
        self._serving: list[asyncio.Task[None]] = []

    async def http2(self, tunnel: Tunnel | None = None) -> Http2Talk:
        """Connect a client that gets HTTP/2."""
        (reader, writer), theirs = await pair_of_sockets()
        self._writers += [writer, theirs[1]]
        session = Session(self.engine, tunnel or self._tunnel, PeekableReader(reader, Place(Held())), writer)
        session.client.alpn = b"h2"
        without_tls(session.layer)
        self.http2_sessions.append(session)
        self._serving.append(asyncio.create_task(session.handle_client()))
        return Http2Talk(theirs)

    async def answered_over_http2(self, path: str = "/x") -> tuple[Http2Talk, Pair]:
        """Have a new client ask, and a new server connection answer; return both."""
        client = await self.http2()
        number = client.send(path)
        server = await self.server()
        assert f"GET {path} ".encode() in await self.get(b"\r\n\r\n", reader=server[0])
        server[1].write(OK)
        assert await client.answer(number) == ("200", b"ok")
        return client, server

    @override
    async def __aexit__(self, *of_error: object) -> None:
        """End everything. mitmproxy ends its server connections only if its own task is not cancelled."""
        for session in self.http2_sessions:
            session.abort()
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*self._serving)
        await super().__aexit__(*of_error)


@contextlib.contextmanager
def chosen(protocol: bytes) -> Iterator[None]:
    """Have each server choose a protocol."""
    negotiated = ByteStream.alpn
    ByteStream.alpn = property(lambda _: protocol)  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        ByteStream.alpn = negotiated  # type: ignore[method-assign]
