import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import cast

import pytest

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Policy, decide_connect
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.front import explicit_proxy as subject
from agent_sandbox.proxy.front.explicit_proxy import ConnectDeniedError, ExplicitProxy, Opened, decide_tunnel, is_own
from agent_sandbox.proxy.lane import choice
from agent_sandbox.proxy.lane.choice import CannotServeError
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import Dialler
from agent_sandbox.proxy.upstream.pool import ServerPool
from agent_sandbox.proxy.wire.http1_head import BadHeadError, parse_request
from agent_sandbox.proxy.wire.sniff import RawTunnelError
from client_hellos import hello
from layer_harness import hooks_of
from memory_streams import memory_streams
from policy_texts import PolicyOf
from table_tests import each

CONNECT = b"CONNECT a.test:443 HTTP/1.1\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
HTTP = b"GET /x HTTP/1.1\r\n"


def opening(session: Callable[..., object]) -> Callable[..., Awaitable[object]]:
    """Return a function that opens such a session."""

    async def open_session(*connection: object) -> object:
        return session(*connection)

    return open_session


class Stage:
    """An explicit proxy, and what it does with one connection."""

    def __init__(self, policy: Policy, monkeypatch: pytest.MonkeyPatch, *, limits: Limits | None = None) -> None:
        self.lines: list[AuditRecord] = []
        self.ended: list[int] = []
        self.sessions: list[tuple[Tunnel, bytes]] = []
        decision = decide_connect(policy, host="a.test", port=443)
        self.tunnel = Tunnel(
            client="10.0.0.3:5", carries=Carries.HTTP, host="a.test", port=443, decision=decision
        )  # the tunnel that `CONNECT` opens
        engine = Engine(
            hooks=hooks_of(),
            dialler=cast("Dialler", None),
            limits=limits or Limits(),
            record=self.lines.append,
            policy=lambda: policy,
        )
        self.front = ExplicitProxy(engine, lambda: policy)
        stage = self

        class Session:
            """A fake session."""

            def __init__(self, _: Engine, tunnel: Tunnel, reader: PeekableReader, __: object) -> None:
                stage.sessions.append((tunnel, reader.ahead))

            async def handle_client(self) -> None:
                """Review the connections during the session."""
                nothing = Policy.deny_all("")
                stage.ended.append(await stage.front.review(PolicyTransition(old=nothing, new=nothing)))

            async def review(self, _: PolicyTransition) -> bool:
                """Report that the session ends."""
                return True

            def abort(self) -> None:
                """Do nothing."""

        monkeypatch.setattr(choice, "open_session", opening(Session))

    async def serve(self, *pieces: bytes, end: bool = True) -> bytes:
        """Serve a client that sends these pieces; return the response."""
        reader, writer, transport = memory_streams()
        serving = asyncio.create_task(self.front.serve(reader, writer))
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if end and not reader.at_eof():
            reader.feed_eof()
        await serving
        assert transport.ended
        return transport.written


@pytest.fixture
def stage(policy: PolicyOf, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(policy("domains: [a.test]"), monkeypatch)


async def test_a_method_other_than_connect_is_a_request_to_the_proxy(stage: Stage) -> None:
    assert await stage.serve(b"C", b"OPY http://") == b""
    assert stage.sessions == [(Tunnel(client="10.0.0.3:5", carries=Carries.PROXY), b"COPY http://")]


async def test_a_client_that_sends_nothing_gets_no_session_and_no_record(stage: Stage) -> None:
    assert await stage.serve() == b""
    assert (stage.sessions, stage.lines) == ([], [])


async def test_opens_a_tunnel_and_passes_the_first_bytes_to_a_session(stage: Stage) -> None:
    assert await stage.serve(CONNECT[:9], CONNECT[9:], HTTP[:5], HTTP[5:]) == ESTABLISHED
    assert stage.sessions == [(stage.tunnel, HTTP)]
    assert stage.lines == []


async def test_a_tunnel_to_a_denied_name_gets_a_session_with_the_denial(stage: Stage) -> None:
    await stage.serve(CONNECT.replace(b"a.test", b"b.test") + HTTP)
    refused = stage.sessions[0][0].refused
    assert refused
    assert refused.reason == "no rule allows host b.test"


@pytest.mark.parametrize(("before", "after", "refused"), [("a.test", "b.test", True), ("b.test", "a.test", False)])
async def test_decides_a_tunnel_again_at_its_first_bytes(
    policy: PolicyOf, monkeypatch: pytest.MonkeyPatch, before: str, after: str, *, refused: bool
) -> None:
    policies = [policy(f"domains: [{host}]") for host in (before, after, after)]
    stage = Stage(policies[0], monkeypatch)
    monkeypatch.setattr(stage.front, "_policy", lambda: policies.pop(0))
    assert await stage.serve(CONNECT, HTTP) == ESTABLISHED
    assert (stage.sessions[0][0].refused is not None) is refused


async def test_a_denied_connect_is_answered_and_logged(stage: Stage) -> None:
    got = await stage.serve(CONNECT.replace(b"443", b"22") + b"SSH-2.0-x")
    assert got.startswith(b"HTTP/1.1 403 Blocked by agent-sandbox: host a.test is allowed, port 22 is not: ")
    assert b"\r\nx-agent-sandbox: blocked\r\n" in got
    line = stage.lines[0]
    assert (line.event, line.host, line.port, line.status) == (Event.CONNECT, "a.test", 22, 403)
    assert stage.sessions == []


async def test_a_malformed_connect_is_answered_and_logged(stage: Stage) -> None:
    got = await stage.serve(b"CONNECT a.test HTTP/1.1\r\n\r\n")
    assert json.loads(got.partition(b"\r\n\r\n")[2])["reason"] == "ambiguous: the port is missing"
    assert (stage.lines[0].event, stage.lines[0].status) == (Event.MALFORMED, 400)


async def test_a_client_that_leaves_during_its_head_gets_no_answer_and_no_record(stage: Stage) -> None:
    assert await stage.serve(CONNECT[:20]) == b""
    assert stage.lines == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SSH-2.0-x", "neither TLS nor HTTP"),
        (b"", "the client closed the connection before its first message"),
        (b"GET /x", "the client closed the connection during its first message"),
        (b"\x16\x03\x01", "the client closed the connection during its first message"),
    ],
)
async def test_a_raw_tunnel_is_closed_without_an_answer_and_logged(stage: Stage, data: bytes, reason: str) -> None:
    assert await stage.serve(CONNECT, data) == ESTABLISHED
    assert [(line.event, line.reason, line.host) for line in stage.lines] == [(Event.RAW_TUNNEL, reason, "a.test")]
    assert stage.sessions == []


async def test_a_client_hello_without_a_server_name_gets_an_alert(stage: Stage) -> None:
    nameless = b"\x01\0\0\x29\x03\x03" + bytes(32) + b"\0\0\x02\x13\x01\x01\0"
    got = await stage.serve(CONNECT, b"\x16\x03\x01" + len(nameless).to_bytes(2) + nameless)
    assert got == ESTABLISHED + b"\x15\x03\x03\x00\x02\x02\x70"
    assert stage.lines[0].reason.startswith("sni_missing")


@pytest.mark.parametrize(
    ("fault", "event", "answer"),
    [
        (CannotServeError("mitmproxy cannot be imported"), Event.FAULT, b"\x15\x03\x03\x00\x02\x02\x50"),
        (RawTunnelError("the ClientHello is incomplete"), Event.RAW_TUNNEL, b""),
    ],
)
async def test_a_connection_that_cannot_be_served_is_closed_and_recorded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fault: Exception, event: Event, answer: bytes
) -> None:
    async def open_session(*_: object) -> object:
        raise fault

    monkeypatch.setattr(choice, "open_session", open_session)
    assert await stage.serve(CONNECT, hello(b"a.test")) == ESTABLISHED + answer
    (line,) = stage.lines
    assert (line.event, line.decision, line.reason) == (event, "deny", str(fault))
    assert (line.host, line.port, line.client) == ("a.test", 443, "10.0.0.3:5")


async def test_limits_the_time_and_size_of_heads_and_first_messages(
    policy: PolicyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(head_seconds=0.01, hello_seconds=0.01, hello_bytes=10)
    stage = Stage(policy("domains: [a.test]"), monkeypatch, limits=limits)
    assert await stage.serve(b"CONN", end=False) == b""
    assert (await stage.serve(CONNECT[:20], end=False)).startswith(b"HTTP/1.1 408")
    assert await stage.serve(CONNECT, end=False) == ESTABLISHED
    assert await stage.serve(CONNECT, b"\x16\x03\x01\x20\x00\x01\x00\x20\x00" + bytes(20), end=False) == ESTABLISHED
    assert [line.reason for line in stage.lines] == [
        "the request head did not arrive in time",
        "the client's first message did not arrive in time",
        "the client's first message is too long",
    ]


async def test_a_session_is_reviewed_while_it_runs(stage: Stage) -> None:
    await stage.serve(CONNECT + HTTP)
    assert stage.ended == [1]
    nothing = Policy.deny_all("")
    assert await stage.front.review(PolicyTransition(old=nothing, new=nothing)) == 0


async def test_closes_idle_server_connections_at_a_policy_change_and_at_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[None] = []
    monkeypatch.setattr(ServerPool, "clear", lambda _: cleared.append(None))
    stage.front._engine.pools.append(ServerPool())
    nothing = Policy.deny_all("")
    await stage.front.review(PolicyTransition(old=nothing, new=nothing))
    assert len(cleared) == 1
    await stage.front.end()
    assert len(cleared) == 2


async def test_passthrough_connections_go_to_the_relay(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    relayed: list[tuple[Tunnel, bytes]] = []

    class Relay:
        """A fake relay."""

        def __init__(self, _: Engine, tunnel: Tunnel, lead: PeekableReader, __: object) -> None:
            relayed.append((tunnel, lead.ahead))

        async def run(self) -> None:
            """Do nothing."""

        abort = run

    monkeypatch.setattr(subject, "Relay", Relay)
    monkeypatch.setattr(subject, "is_passthrough", lambda *_: True)
    await stage.serve(CONNECT + HTTP)
    assert relayed == [(stage.tunnel, HTTP)]
    assert stage.sessions == []


async def test_end_aborts_sessions_and_cancelling_closes_silent_connections(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    class Session:
        """A session that runs until it is aborted."""

        def __init__(self, *_: object) -> None:
            self.abort = over.set

        async def handle_client(self) -> None:
            """Wait."""
            await over.wait()

    monkeypatch.setattr(choice, "open_session", opening(Session))
    serving = asyncio.create_task(stage.serve(CONNECT, HTTP, end=False))
    for _ in range(5):
        await asyncio.sleep(0)
    await stage.front.end()
    assert await serving == ESTABLISHED
    reader, writer, transport = memory_streams()
    silent = asyncio.create_task(stage.front.serve(reader, writer))
    await asyncio.sleep(0)
    silent.cancel()
    await silent
    assert (silent.cancelled(), transport.ended) == (False, "closed")


async def test_counts_the_open_connections(stage: Stage) -> None:
    assert stage.front.connections == 0
    clients = [memory_streams() for _ in range(2)]
    serving = [asyncio.create_task(stage.front.serve(reader, writer)) for reader, writer, _ in clients]
    await asyncio.sleep(0)
    assert stage.front.connections == 2
    for left, (reader, _, _) in zip((1, 0), clients, strict=True):
        reader.feed_eof()
        await serving[1 - left]
        assert stage.front.connections == left


@each(
    ("peer", "here", "own"),
    [
        (("10.0.0.3", 5), ("10.0.0.2", 80), False),
        (("10.0.0.2", 5), ("10.0.0.2", 80), True),
        (("127.0.0.1", 5), ("127.0.0.1", 80), True),
        (("127.8.0.1", 5), ("127.0.0.1", 80), True),
        (("::1", 5, 0, 0), ("::1", 80, 0, 0), True),
        (("fe80::3%2", 5, 0, 2), ("fe80::2%2", 80, 0, 2), False),
        (None, ("10.0.0.2", 80), False),
        (None, None, False),
    ],
)
def test_is_own_is_true_for_loopback_and_the_proxys_own_address(peer: object, here: object, *, own: bool) -> None:
    known = {"peername": peer, "sockname": here}
    writer = SimpleNamespace(get_extra_info=known.get)
    assert is_own(cast("asyncio.StreamWriter", writer)) is own


def decide(target: str, policy: Policy, fields: str = "") -> Opened:
    head = parse_request(f"CONNECT {target} HTTP/1.1\r\n{fields}\r\n".encode(), Limits())
    return decide_tunnel(head, lambda: policy)


@pytest.mark.parametrize(
    ("target", "port"), [("a.test:22", 22), ("203.0.113.200:443", 443), ("[2001:db8::1]:443", 443)]
)
def test_denies_connect_to_an_unlisted_port_or_address_at_once(policy: PolicyOf, target: str, port: int) -> None:
    with pytest.raises(ConnectDeniedError) as caught:
        decide(target, policy("domains: [a.test]"))
    assert caught.value.port == port


def test_a_denied_connect_has_a_complete_denial(policy: PolicyOf) -> None:
    with pytest.raises(ConnectDeniedError) as caught:
        decide("b.test:22", policy("domains: [a.test]\nsettings: {block_status: 418}"))
    assert caught.value.denial == Denial(
        status=418,
        reason="no rule allows host b.test",
        host="b.test",
        method="CONNECT",
        hint="run `agent-sandbox policy allow b.test` on the host machine",
    )


@pytest.mark.parametrize(
    ("target", "fields", "problem"),
    [
        ("a.test", "", "ambiguous: the port is missing"),
        ("a.test:443", "Host: b.test\r\n", "the Host header of a CONNECT names a different host"),
        ("a.test:443", "Host: a test\r\n", "ambiguous: not a host name: 'a test'"),
        ("a.test:443", "Content-Length: 1\r\n", "CONNECT with a body"),
    ],
)
def test_rejects_a_malformed_connect(policy: PolicyOf, target: str, fields: str, problem: str) -> None:
    with pytest.raises(BadHeadError) as caught:
        decide(target, policy("domains: [a.test]"), fields)
    assert problem == str(caught.value)


def test_a_tunnel_is_opened_for_a_request_that_a_person_would_be_asked_about(policy: PolicyOf) -> None:
    head = parse_request(b"CONNECT b.test:8443 HTTP/1.1\r\n\r\n", Limits())
    got = decide_tunnel(
        head, lambda: policy("domains: [a.test]"), lambda host, port, _: (host, port) == ("b.test", 8443)
    )
    assert not got.decision.allowed
