import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from mitmproxy.connection import Server
from msgspec.structs import replace

from agent_sandbox.policy import parse_request
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.proxy.connection.upstream import OtherProtocolError, Upstream, from_pool, secrets_of
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm import shared_server as subject
from agent_sandbox.proxy.mitm.http1_client import ExchangeOver
from agent_sandbox.proxy.mitm.shared_server import (
    REFUSES_HTTP1,
    RESET_BY_SERVER,
    SharedServer,
    SharedStream,
    Sharing,
    shared_server,
)
from agent_sandbox.proxy.tls.contexts import HTTP1
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached
from agent_sandbox.proxy.wire.http1_head import parse_response
from agent_sandbox.proxy.wire.message import RequestHead
from http2_stage import Http2Stage, chosen
from lane_stage import PLAIN, YES, Pair

type Stage = Callable[..., Http2Stage]

HEAD = RequestHead(b"GET", b"/x", b"HTTP/2.0", (), b"", "a.test", 80, b"http")
REQUEST = parse_request(scheme="http", host="a.test", port=80, method="GET", target="/x")
LENGTH = (b"content-length", b"2")


def allowed(*fields: tuple[bytes, bytes]) -> Exchange:
    head = replace(HEAD, fields=fields)
    exchange = open_exchange(head, PLAIN, started=0.0)
    exchange.allow(YES, REQUEST, head)
    return exchange


def server_for(exchange: Exchange | None = None) -> SharedServer:
    server = shared_server(exchange or allowed(), is_bodyless=True)
    assert server is not None
    return server


@pytest.mark.parametrize(("fields", "is_bodyless"), [((), True), ((LENGTH,), True), ((LENGTH,), False)])
def test_shares_connections_for_requests_with_no_body_or_a_content_length(
    fields: tuple[tuple[bytes, bytes], ...], *, is_bodyless: bool
) -> None:
    server = shared_server(allowed(*fields), is_bodyless=is_bodyless)
    assert server is not None
    assert (server.address, server.alpn, server.tls_established) == (("a.test", 80), HTTP1, True)
    assert server.has_body is not is_bodyless


@pytest.mark.parametrize(
    ("fields", "is_bodyless"),
    [
        ((), False),
        (((b"te", b"trailers"),), True),
        (((b"TE", b"trailers"), LENGTH), False),
        (((b"authorization", b"NTLM TlRM"),), True),
    ],
)
def test_no_shared_connection_for_streaming_trailers_or_connection_authentication(
    fields: tuple[tuple[bytes, bytes], ...], *, is_bodyless: bool
) -> None:
    assert shared_server(allowed(*fields), is_bodyless=is_bodyless) is None


def test_no_shared_connection_for_a_denied_or_granted_request() -> None:
    assert shared_server(open_exchange(HEAD, PLAIN, started=0.0), is_bodyless=True) is None
    granted = allowed()
    granted.waiting = Waiting(leave=lambda: None, over=True, grant=cast("Rule", object()))
    assert shared_server(granted, is_bodyless=True) is None


async def opened(on: Http2Stage, server: SharedServer, size: int = 1 << 20) -> tuple[Sharing, SharedStream, Pair]:
    sharing = Sharing(on.engine, PLAIN)
    stream = await sharing.open(server, read_size=lambda: size)
    return sharing, stream, await on.server()


def answer(text: str = "HTTP/1.1 200 OK\nContent-Length: 2") -> bytes:
    return text.replace("\n", "\r\n").encode() + b"\r\n\r\n"


def over(server: Server, text: str = "HTTP/1.1 200 OK\nContent-Length: 2") -> ExchangeOver:
    return ExchangeOver(server, parse_response(answer(text), Limits()))


@pytest.mark.usefixtures("http1")
async def test_returns_a_connection_to_the_pool_and_takes_it_from_there(stage: Stage) -> None:
    async with stage() as on:
        server = server_for()
        sharing, stream, (reader, _) = await opened(on, server)
        stream.write(b"hello")
        await stream.drain()
        assert await reader.read(9) == b"hello"
        assert (server.was_used, stream.is_closing(), stream.at_rest is not None) == (False, False, True)
        sharing.over(over(server))
        assert (len(on.pool), stream.is_closing(), stream.at_rest) == (1, True, None)
        again = server_for()
        used = await sharing.open(again)
        assert (again.was_used, len(on.pool), on.asked) == (True, 0, [("a.test", 80)])
        sharing.close(again)
        assert used.at_rest is None


@pytest.mark.usefixtures("http1")
async def test_a_released_stream_does_not_touch_the_connection(stage: Stage) -> None:
    async with stage() as on:
        sharing, stream, (reader, writer) = await opened(on, server_for())
        stream.release()
        stream.write(b"no")
        await stream.drain()
        stream.write_eof()
        stream.close()
        stream.get_extra_info("socket")
        stream.transport.abort()
        writer.write(b"for another")
        assert await stream.read(1) == b""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(1)
        assert sharing.allows(server_for())


@pytest.mark.usefixtures("http1")
@pytest.mark.parametrize(("size", "first"), [(3, b"abc"), (1 << 20, b"abcdef")])
async def test_reads_as_much_at_once_as_the_session_allows(stage: Stage, size: int, first: bytes) -> None:
    async with stage() as on:
        _, stream, (_, writer) = await opened(on, server_for(), size)
        writer.write(b"abcdef")
        writer.close()
        got = [await stream.read(65535)]
        while data := await stream.read(65535):
            got.append(data)
        assert (got[0], b"".join(got), stream.is_early) == (first, b"abcdef", False)
        stream.close()


@pytest.mark.usefixtures("http1")
async def test_a_reset_is_reported_and_ends_reading(stage: Stage) -> None:
    async with stage() as on:
        server = server_for()
        _, stream, (_, writer) = await opened(on, server)
        stream.abort()
        assert await stream.read(1) == b""
        assert server.error is None
        other = server_for()
        _, stream, (_, writer) = await opened(on, other)
        held = stream.at_rest
        assert held is not None
        held.stream.connection_lost(ConnectionResetError())
        assert await stream.read(1) == b""
        assert other.error == RESET_BY_SERVER
        writer.close()
        stream.close()


@pytest.mark.usefixtures("http1")
async def test_keeps_reading_after_write_eof(stage: Stage) -> None:
    async with stage() as on:
        _, stream, (reader, writer) = await opened(on, server_for())
        stream.write_eof()
        assert await reader.read() == b""
        writer.write(b"late")
        assert await stream.read(1) == b"late"
        stream.close()


@pytest.mark.usefixtures("http1")
@pytest.mark.parametrize("doubt", ["unread", "reading", "early", "closes", "challenge", "body"])
async def test_closes_a_connection_that_is_not_safe_to_share(stage: Stage, doubt: str) -> None:
    async with stage() as on:
        server = server_for()
        server.has_body = doubt == "body"
        sharing, stream, (reader, writer) = await opened(on, server)
        reading = None
        if doubt == "unread":
            writer.write(b"more")
            await asyncio.sleep(0.02)
        elif doubt == "reading":
            reading = asyncio.create_task(stream.read(1))
            await asyncio.sleep(0)
        stream.is_early = doubt == "early"
        more = {"closes": "\nConnection: close", "challenge": "\nWWW-Authenticate: NTLM"}.get(doubt, "")
        sharing.over(over(server, f"HTTP/1.1 200 OK\nContent-Length: 2{more}"))
        assert len(on.pool) == 0
        sharing.close(server)
        assert await on.get(reader=reader) in (b"", b"reset")
        if reading is not None:
            assert await reading == b""


async def test_ignores_the_end_of_an_exchange_on_another_connection(stage: Stage) -> None:
    async with stage() as on:
        sharing = Sharing(on.engine, PLAIN)
        sharing.over(over(Server(address=("a.test", 80))))
        sharing.over(over(server_for()))
        sharing.close(server_for())
        assert len(on.pool) == 0


@pytest.mark.usefixtures("http1")
async def test_an_error_in_to_pool_leaves_the_connection_with_its_session(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage() as on:
        server = server_for()
        sharing, _, (reader, _) = await opened(on, server)

        def fall_over(upstream: Upstream, *_: object) -> None:
            raise ValueError(upstream)

        monkeypatch.setattr(subject, "to_pool", fall_over)
        with pytest.raises(ValueError, match="Upstream"):
            sharing.over(over(server))
        sharing.close(server)
        assert await on.get(reader=reader) in (b"", b"reset")


@pytest.mark.usefixtures("http1")
async def test_keeps_the_secrets_that_were_sent_with_the_connection(stage: Stage) -> None:
    async with stage() as on:
        server = server_for()
        sharing, stream, _ = await opened(on, server)
        held = stream.at_rest
        assert held is not None
        assert held.secrets == secrets_of(server.exchange)
        sharing.over(over(server))
        assert from_pool(allowed(), PLAIN, on.engine, lambda: None) is held
        held.drop()


@pytest.mark.parametrize("protocol", [b"", b"h2"])
async def test_remembers_a_server_that_does_not_choose_http1(stage: Stage, protocol: bytes) -> None:
    async with stage() as on:
        sharing = Sharing(on.engine, PLAIN)
        with chosen(protocol), pytest.raises(DialError) as refused:
            await sharing.open(server_for())
        assert refused.value.why is REFUSES_HTTP1
        assert not sharing.allows(server_for())
        assert await on.get(reader=(await on.server())[0]) in (b"", b"reset")
        on.pool.clear()
        assert sharing.allows(server_for())


async def test_remembers_a_server_that_refuses_http1(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> Upstream:
        raise OtherProtocolError(NotReached("no"))

    monkeypatch.setattr(subject, "reach", refuse)
    async with stage() as on:
        sharing = Sharing(on.engine, PLAIN)
        with pytest.raises(DialError) as refused:
            await sharing.open(server_for())
        assert refused.value.why is REFUSES_HTTP1
        assert not sharing.allows(server_for())
