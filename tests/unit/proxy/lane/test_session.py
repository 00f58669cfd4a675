import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import override

import pytest

from agent_sandbox.policy import parse_request
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.lane import session as subject
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tls.authority import load_authority, now_utc
from agent_sandbox.proxy.tls.contexts import ClientTls, TlsStart
from agent_sandbox.proxy.tunnel import Tunnel
from lane_stage import GET, OK, SECURE, YES, LaneStage, untrusting
from layer_harness import Deny, LetThrough
from policy_texts import PolicyOf

type Stage = Callable[..., LaneStage]

REFUSED = b"HTTP/1.1 400 Bad Request\r\nx-agent-sandbox: blocked\r\n"


@pytest.fixture
def client_tls(tmp_path: Path) -> ClientTls:
    return ClientTls(load_authority(tmp_path, now=now_utc()), now=now_utc)


async def test_a_client_that_offers_both_gets_http1(stage: Stage, client_tls: ClientTls) -> None:
    async with stage(client_tls, Deny(), tunnel=SECURE) as on:
        context = untrusting()
        context.set_alpn_protocols(["h2", "http/1.1"])
        await on.start_tls(context)
        assert on.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        on.send(GET)
        assert (await on.get(b"\r\n")).startswith(b"HTTP/1.1 403")


async def test_refuses_an_http2_preface(stage: Stage, client_tls: ClientTls) -> None:
    async with stage(client_tls, tunnel=SECURE) as on:
        context = untrusting()
        context.set_alpn_protocols(["h2"])
        await on.start_tls(context)
        on.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert (await on.get(b"\r\n")).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("data", "why"), [(b"\x16\x03\x01junkjunk", "The TLS handshake of the client failed"), (b"", "disconnected")]
)
async def test_records_a_failed_tls_handshake(stage: Stage, client_tls: ClientTls, data: bytes, why: str) -> None:
    async with stage(client_tls, tunnel=SECURE) as on:
        on.send(data)
        on.writer.write_eof()
        await on.over()
        assert len(on.notes.said) == 1
        assert why in on.notes.said[0]


async def test_closes_the_connection_without_a_tls_object(stage: Stage) -> None:
    class NoObject(LetThrough):
        @hook
        def tls_start_client(self, _: TlsStart, __: Tunnel) -> None:
            """Set none."""

    async with stage(NoObject(), tunnel=SECURE) as on:
        assert await on.get() == b""


async def test_pipelined_requests_are_answered_in_order(stage: Stage) -> None:
    async with stage(Deny()) as on:
        on.send(GET * 2 + GET[:10])
        for _ in range(2):
            assert (await on.get(b"}\n")).startswith(b"HTTP/1.1 403")
        on.send(GET[10:])
        assert (await on.get(b"}\n")).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("data", [b"", b"GET / HT"])
async def test_writes_no_record_for_an_incomplete_head(stage: Stage, data: bytes) -> None:
    async with stage() as on:
        on.send(data)
        on.writer.write_eof()
        assert await on.get() == b""
        assert (on.notes.ended, on.notes.said) == ([], [])


async def test_a_head_that_does_not_arrive_in_time_is_refused(stage: Stage) -> None:
    async with stage(limits=Limits(head_seconds=0.05)) as on:
        on.send(GET[:-2])
        assert (await on.get()).startswith(b"HTTP/1.1 408 ")
        assert on.notes.said == ["the request head did not arrive in time"]


async def test_a_malformed_head_is_refused(stage: Stage) -> None:
    async with stage() as on:
        on.send(b"GET /x HTTP/1.1\n\n")
        assert (await on.get()).startswith(REFUSED)
        on.writer.transport.set_write_buffer_limits(0)
        on.send(GET * 20_000)  # more than the sockets hold: it is read
        await on.writer.drain()
        on.writer.close()
        await on.over()
        assert on.notes.said == ["a bare CR or LF in the request head"]


async def test_closes_idle_connections(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "CHECK_SECONDS", 0.01)
    async with stage(limits=Limits(idle_seconds=1)) as on:
        on.session._check_idle()
        assert not on.task.done()
        on.session._active -= 10
        await on.over()


async def test_a_client_that_resets_ends_the_session(stage: Stage) -> None:
    async with stage(Deny()) as on:
        on.session._client.drain = lost  # type: ignore[method-assign] # as if the client had left just now
        on.send(GET)
        await on.over()


async def lost() -> None:
    raise ConnectionResetError


@pytest.mark.parametrize(
    ("new", "begun", "ended"),
    [("domains: [a.test]", True, False), ("domains: [b.test]", True, True), ("domains: [b.test]", False, True)],
)
async def test_a_review_ends_exchanges_that_are_no_longer_allowed(
    stage: Stage, policy: PolicyOf, new: str, *, begun: bool, ended: bool
) -> None:
    async with stage(Allow()) as on:
        reader = on.reader
        if begun:
            on.send(GET)
            reader, _ = await on.server()
            await on.get(b"\r\n\r\n", reader=reader)
        revision = PolicyTransition(old=on.policy, new=policy(new))
        assert await on.session.review(revision) is ended
        if begun and ended:
            assert (await on.get(b"\r\n\r\n")).startswith(b"HTTP/1.1 403")
            assert await on.get(reader=reader) in (b"", b"reset")
        if ended and not begun:
            await on.over()
            assert not await on.session.review(revision)


async def test_a_review_drops_server_connections_that_are_no_longer_allowed(stage: Stage, policy: PolicyOf) -> None:
    async with stage(Allow()) as on:
        await on.answered(GET, OK.replace(b"\r\n\r\n", b"\r\nPersistent-Auth: true\r\n\r\n"))
        await asyncio.sleep(0.02)
        upstream = on.session._serving.upstream
        assert upstream is not None
        assert await on.session.review(PolicyTransition(old=on.policy, new=policy("domains: [b.test]")))
        assert not upstream.is_quiet


async def test_an_aborted_session_resets_both_sides(stage: Stage) -> None:
    async with stage() as on:
        on.send(GET)
        reader, _ = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        on.session.abort()
        assert await on.get(reader=reader) in (b"", b"reset")
        await on.over()


class Allow(LetThrough):
    """Allows each request by what the policy said."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, _: Tunnel) -> None:
        """Allow it."""
        request = parse_request(scheme="http", host="a.test", port=80, method="GET", target="/x")
        exchange.allow(YES, request, exchange.head)


async def test_an_exception_is_recorded_and_closes_the_connection(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall(*_: object) -> None:
        raise LookupError("x")

    monkeypatch.setattr(subject, "find_request_end", fall)
    async with stage() as on:
        on.send(GET)
        await on.over()
        assert [line.reason for line in on.lines] == ["error in the protocol engine: x"]
