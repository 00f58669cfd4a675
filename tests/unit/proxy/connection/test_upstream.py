import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from OpenSSL import SSL

from agent_sandbox.policy import Effect, parse_request
from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.connection import upstream as subject
from agent_sandbox.proxy.connection.byte_stream import HELD_BYTES, ByteStream
from agent_sandbox.proxy.connection.upstream import OtherProtocolError, Upstream, from_pool, reach, secrets_of, to_pool
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.exchange.hooks import hook_table
from agent_sandbox.proxy.exchange.steps import Steps
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.redaction import secret_encodings
from agent_sandbox.proxy.tls.contexts import ServerTls
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError
from agent_sandbox.proxy.wire.message import RequestHead
from certificates import make_authority
from lane_stage import OPEN, PLAIN, SECURE, YES, LaneStage, Pair
from policy_texts import PolicyOf

type Stage = Callable[..., LaneStage]
type Serve = Callable[[Pair], Coroutine[Any, Any, None]]

HEAD = RequestHead(b"GET", b"/x", b"HTTP/1.1", (), b"", "a.test", 80, b"http")
REQUEST = parse_request(scheme="http", host="a.test", port=80, method="GET", target="/x")


def allowed(head: RequestHead = HEAD) -> Exchange:
    exchange = open_exchange(head, PLAIN, started=0.0)
    exchange.allow(YES, REQUEST, head)
    return exchange


def nothing() -> None:
    """Note nothing."""


async def reached(on: LaneStage, tunnel: Tunnel, exchange: Exchange, *addons: object) -> Upstream:
    on.engine.hooks.update(hook_table(*addons))
    return await reach(exchange, tunnel, on.engine, Steps(on.engine.hooks, tunnel, on.lines.append), nothing)


@pytest.mark.parametrize("tunnel", [PLAIN, OPEN])
async def test_fits_only_requests_to_the_same_server_with_the_same_secrets(stage: Stage, tunnel: Tunnel) -> None:
    async with stage(tunnel=tunnel) as on:
        upstream = await reached(on, tunnel, allowed())
        exchange = allowed()
        assert upstream.fits(exchange)
        upstream.secrets = secrets_of(exchange)
        assert upstream.fits(exchange)
        exchange = allowed()
        exchange.echoes = secret_encodings("hunter22", KINDS["bearer"])
        assert not upstream.fits(exchange)
        assert not upstream.fits(signed())
        assert not upstream.fits(allowed(replace(HEAD, host="b.test")))
        assert not upstream.fits(open_exchange(HEAD, PLAIN, started=0.0))
        (await on.server())[1].write(b"unexpected")
        await asyncio.sleep(0.02)
        assert not upstream.fits(allowed())


def signed(age: float = 1.0) -> Exchange:
    """Return an exchange with a secret that is not sent."""
    exchange = allowed()
    exchange.secrets = (SecretUse(secret="aws", kind="aws", source="file", age=age),)
    return exchange


async def test_takes_a_pooled_connection_only_for_the_same_secrets_and_policy(stage: Stage, policy: PolicyOf) -> None:
    async with stage() as on:
        upstream = await reached(on, PLAIN, allowed())
        upstream.secrets = secrets_of(signed())
        to_pool(upstream, on.engine, 60)
        assert from_pool(allowed(), PLAIN, on.engine, nothing) is None
        assert from_pool(signed(age=2.0), PLAIN, on.engine, nothing) is upstream
        to_pool(upstream, on.engine, 60)
        on.policy = policy("domains: [a.test]")
        assert from_pool(signed(), PLAIN, on.engine, nothing) is None
        assert not upstream.is_quiet


async def test_does_not_pool_a_connection_that_was_dialled_under_an_older_policy(
    stage: Stage, policy: PolicyOf
) -> None:
    async with stage() as on:
        upstream = await reached(on, PLAIN, allowed())
        on.policy = policy("domains: [a.test]")
        to_pool(upstream, on.engine, 60)
        assert len(on.pool) == 0
        assert not upstream.is_quiet


async def test_closes_a_pooled_connection_with_paused_reading_when_its_server_closes_it(stage: Stage) -> None:
    async with stage() as on:
        upstream = await reached(on, PLAIN, allowed())
        _, writer = await on.server()
        writer.write(b"x" * (HELD_BYTES + 1))
        await asyncio.sleep(0.05)
        assert len(upstream.stream.buffer) > HELD_BYTES
        upstream.stream.buffer.maybe_extract_at_most(HELD_BYTES + 1)
        to_pool(upstream, on.engine, 60)
        assert len(on.pool) == 1
        writer.close()
        await asyncio.sleep(0.02)
        assert len(on.pool) == 0


async def test_takes_no_pooled_connection_to_a_destination_that_was_not_decided(stage: Stage) -> None:
    async with stage() as on:
        for exchange in (allowed(replace(HEAD, host="b.test")), open_exchange(HEAD, PLAIN, started=0.0)):
            with pytest.raises(DialError, match="only to the destination that was decided"):
                from_pool(exchange, PLAIN, on.engine, nothing)


@pytest.mark.parametrize("elsewhere", ["not allowed", "another host", "refused tunnel"])
async def test_dials_only_the_decided_destination(stage: Stage, elsewhere: str) -> None:
    exchange, tunnel = allowed(), PLAIN
    if elsewhere == "not allowed":
        exchange.forwarded = None
    elif elsewhere == "another host":
        exchange = allowed(replace(HEAD, host="b.test"))
    else:
        tunnel = type(PLAIN)(client="", carries=PLAIN.carries, host="a.test", port=80, decision=NO)
    async with stage() as on:
        with pytest.raises(DialError, match="only to the destination that was decided"):
            await reached(on, tunnel, exchange)
        assert on.asked == []


@pytest.mark.parametrize(("new", "fails"), [("domains: [b.test]", True), ("domains: [a.test, b.test]", False)])
async def test_checks_a_policy_that_was_reloaded_while_connecting(
    stage: Stage, policy: PolicyOf, new: str, *, fails: bool
) -> None:
    async with stage() as on:
        on.reached.clear()
        connecting = asyncio.create_task(reached(on, PLAIN, allowed()))
        await asyncio.sleep(0.01)
        on.policy = policy(new)
        on.reached.set()
        if fails:
            with pytest.raises(DialError, match="the policy was reloaded while the proxy connected"):
                await connecting
        else:
            assert (await connecting).server.host == "a.test"


NO = replace(YES, effect=Effect.DENY)
SAFE = replace(HEAD, port=443)


async def secure(on: LaneStage, server: Serve, *addons: object) -> Upstream:
    async def serve() -> None:
        await server(await on.server())

    serving = asyncio.create_task(serve())
    try:
        return await reached(on, SECURE, allowed(SAFE), *addons)
    finally:
        serving.cancel()


@pytest.fixture
def trusted(tmp_path: Path) -> tuple[Path, Path]:
    return make_authority(tmp_path, ["a.test"]), tmp_path / "leaf.pem"


def speaking(leaf: Path, *protocols: bytes) -> Serve:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate_file(str(leaf))
    context.use_privatekey_file(str(leaf))
    if protocols:
        context.set_alpn_select_callback(lambda _, __: protocols[-1])

    async def serve(streams: Pair) -> None:
        tls = SSL.Connection(context)
        tls.set_accept_state()
        stream = ByteStream(streams[1], on_data=nothing)
        stream.take_over(streams[0])
        with contextlib.suppress(SSL.Error, OSError):
            await stream.handshake(tls)
        await asyncio.sleep(60)

    return serve


async def say(data: bytes, streams: Pair) -> None:
    streams[1].write(data)
    await asyncio.sleep(60)


@pytest.mark.parametrize("protocols", [(), (b"http/1.1",)])
async def test_completes_tls_with_a_trusted_certificate_for_the_host_of_the_tunnel(
    stage: Stage, trusted: tuple[Path, Path], protocols: tuple[bytes, ...]
) -> None:
    async with stage(tunnel=SECURE) as on:
        upstream = await secure(on, speaking(trusted[1], *protocols), ServerTls([trusted[0]]))
        assert upstream.stream.alpn == (b"http/1.1" if protocols else b"")


async def test_rejects_a_certificate_that_is_not_trusted(stage: Stage, trusted: tuple[Path, Path]) -> None:
    async with stage(tunnel=SECURE) as on:
        with pytest.raises(DialError, match="the server's certificate is from an unknown authority, or"):
            await secure(on, speaking(trusted[1]), ServerTls())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"220 mail ready\r\n", "the server does not speak TLS on this port"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "the server refused the TLS handshake: it may ask"),
        (b"", "the server did not complete the TLS handshake in time; agent-sandbox doctor checks the link"),
    ],
)
async def test_fails_if_the_server_does_not_complete_a_tls_handshake(stage: Stage, data: bytes, why: str) -> None:
    async with stage(tunnel=SECURE, limits=Limits(hello_seconds=0.1)) as on:
        with pytest.raises(DialError, match=why):
            await secure(on, lambda streams: say(data, streams), ServerTls())


async def test_reports_a_server_that_refuses_all_offered_protocols_as_other_protocol(stage: Stage) -> None:
    async with stage(tunnel=SECURE) as on:
        with pytest.raises(OtherProtocolError, match="the server speaks neither HTTP/1"):
            await secure(on, lambda streams: say(b"\x15\x03\x03\x00\x02\x02\x78", streams), ServerTls())


async def test_fails_if_the_server_closes_during_the_tls_handshake(stage: Stage) -> None:
    async def close(streams: Pair) -> None:
        streams[1].close()
        await asyncio.sleep(60)

    async with stage(tunnel=SECURE) as on:
        with pytest.raises(DialError, match="the server closed the connection during the TLS handshake; with"):
            await secure(on, close, ServerTls())


async def test_fails_if_no_hook_provides_a_tls_object(stage: Stage) -> None:
    async with stage(tunnel=SECURE) as on:
        with pytest.raises(DialError, match="an error in the proxy prevented TLS with the server"):
            await reached(on, SECURE, allowed(SAFE))


async def test_rejects_a_protocol_that_was_not_offered(
    stage: Stage, trusted: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "HTTP1", b"other")
    async with stage(tunnel=SECURE) as on:
        with pytest.raises(OtherProtocolError, match="chose a protocol that was not offered"):
            await secure(on, speaking(trusted[1], b"http/1.1"), ServerTls([trusted[0]]))
