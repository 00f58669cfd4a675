from __future__ import annotations

import asyncio
import dataclasses
import gzip
import logging
import socket
import struct
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast, override

import pytest
from mitmproxy.connection import Server
from mitmproxy.proxy import commands, events
from msgspec.structs import replace

from agent_sandbox.policy import Decision, Effect, Policy
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm import http1_client
from agent_sandbox.proxy.mitm import session as subject
from agent_sandbox.proxy.mitm.session import INTERRUPTED, EngineOptions, Session
from agent_sandbox.proxy.mitm.shared_server import SharedStream
from agent_sandbox.proxy.net.bulk_reader import COMPRESSED_READ, LARGE_READ, SMALL_READ
from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.fair_scheduler import Work
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets import unpacking
from agent_sandbox.proxy.secrets.redaction import Redactor
from agent_sandbox.proxy.secrets.unpacking import Unpacking
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, Dialler, Refused
from http2_stage import GONE
from http2client import Http2Streams
from http2client import fields as request_fields
from lane_stage import until
from layer_harness import PLAIN, LetThrough, Wait, hooks_of, without_tls
from memory_streams import memory_streams
from packing import PACK
from policy_texts import PolicyOf
from sleeps import recorded_sleeps, turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_sandbox.proxy.audit.record import AuditRecord
    from agent_sandbox.proxy.exchange.exchange import Exchange
    from agent_sandbox.proxy.upstream.proxy_connect import Streams
    from http2_stage import Http2Stage

    type TwoKinds = Callable[..., Http2Stage]

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
RESET = struct.pack("ii", 1, 0)


class Stage:
    """A session with a client, and the server it may dial."""

    def __init__(self, tunnel: Tunnel = PLAIN, *addons: object, limits: Limits | None = None) -> None:
        http1_client.install()
        self.lines: list[AuditRecord] = []
        self.dial: Callable[[], Streams] = self.connect
        self.reached = asyncio.Event()
        self.reached.set()
        self.policy = allowing("a.test")
        self.client, writer, self.to_client = memory_streams()
        self.server, self.server_writer, self.to_server = memory_streams()
        engine = Engine(
            hooks=hooks_of(*addons),
            dialler=cast("Dialler", Dialling(self)),
            limits=limits or Limits(),
            record=self.lines.append,
            policy=lambda: self.policy,
        )
        self.session = Session(engine, tunnel, PeekableReader(self.client, Place(Held())), writer)
        self.session.client.alpn = b"h2"
        without_tls(self.session.layer)
        self.session.layer._http._sharing = None  # each connection is one that mitmproxy opens
        self.streams, self._read = Http2Streams(), 0

    def connect(self) -> Streams:
        return self.server, self.server_writer

    def ask(self, path: str = "/x", *, body: bytes | None = None, ends: bool = True) -> None:
        """Have the client send a request, or its beginning."""
        self.streams.begin(request_fields(path, "a.test", "POST" if body else "GET", "http"), body, ends=ends)
        self.client.feed_data(self.streams.h2.data_to_send())

    def got(self, number: int = 1) -> tuple[str, bytes]:
        """Return the status that the client got on a stream, or how it ended, and the body."""
        data = self.to_client.written[self._read :]
        self._read += len(data)
        if data:
            self.streams.take(data)
        return (*self.streams.happened[number], "")[-2:][0], self.streams.received[number]

    async def served(self) -> tuple[str, bytes]:
        """Serve until nothing happens any more, have the client leave, and return what it got."""
        serving = asyncio.create_task(self.session.handle_client())
        await turns()
        self.client.feed_eof()
        await serving
        return self.got()


class Dialling:
    """Dials what the stage says."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def dial(self, _: str, __: int) -> Streams:
        """Dial it."""
        await self.stage.reached.wait()
        return self.stage.dial()


class Redacts(Streamer):
    """Searches each response."""

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Search it."""
        super().responseheaders(exchange, tunnel)
        exchange.received.redactor = Redactor([b"secret"])


async def test_a_response_that_is_searched_takes_turns() -> None:
    stage = Stage(PLAIN, LetThrough(), Redacts())
    stage.ask()
    stage.server.feed_data(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\na secret")
    serving = asyncio.create_task(stage.session.handle_client())
    async with stage.session._engine.turns.turn(Work()):
        await until(lambda: bool(stage.session._engine.turns._waiting))
        assert stage.got() == ("200", b"")
    await until(lambda: not stage.session._resuming)
    stage.client.feed_eof()
    await serving
    assert stage.got()[1] == b"a ******"


class Expands(Streamer):
    """Decompresses and searches each response."""

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Search it."""
        super().responseheaders(exchange, tunnel)
        exchange.received.unpacking, exchange.received.redactor = Unpacking(b"gzip"), Redactor([b"secret"])


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_response_is_expanded_no_faster_than_the_client_takes_it(*, is_cancelled: bool) -> None:
    limits = Limits()
    stage = Stage(PLAIN, LetThrough(), Expands(), limits=limits)
    draw = Random(1)  # noqa: S311 - what does not compress, so that the whole is not refused as a bomb
    packed = gzip.compress(b"".join(draw.randbytes(1500) + bytes(100_000) for _ in range(200)))
    stage.ask()
    stage.server.feed_data(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(packed), packed))
    serving = asyncio.create_task(stage.session.handle_client())
    await until(lambda: stage.session.layer.unsent(to_client=True) > limits.held_bytes)
    await until(lambda: not stage.session._engine.turns._is_taken)
    (waiting,) = stage.session._resuming
    for _ in range(1000):  # it would go on at its next turn
        await turns()
    assert (waiting.done(), {waiting} == stage.session._resuming) == (False, True)
    assert stage.session.layer.unsent(to_client=True) < 2 * limits.held_bytes
    if is_cancelled:
        serving.cancel()
    else:
        stage.client.feed_eof()
    await asyncio.gather(serving, return_exceptions=True)
    await until(lambda: not stage.session._resuming)


class Packed(Streamer):
    """Decompresses and searches the responses of one path, with decoders of which none is free."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [Unpacking(b"br", self._unpackings) for _ in range(16)]

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Decompress and search one of them."""
        super().responseheaders(exchange, tunnel)
        if exchange.path == "/packed":
            exchange.received.unpacking = Unpacking(b"br", self._unpackings)
            exchange.received.redactor = Redactor([b"secret"])


@pytest.mark.parametrize("seconds", [600, 0.01])
async def test_a_response_that_waits_for_a_decoder_holds_no_other_one(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(unpacking, "WAIT_SECONDS", seconds)
    packed, body = Packed(), PACK[b"br"](b"a text")
    stage = Stage(PLAIN, LetThrough(), packed)
    stage.ask("/packed")
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    stage.server.feed_data(b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(body), body))
    serving = asyncio.create_task(stage.session.handle_client())
    await until(lambda: bool(packed._unpackings.waiting))
    stage.server, stage.server_writer, _ = memory_streams()
    stage.ask("/plain")
    stage.server.feed_data(OK)
    await until(lambda: stage.got(3) == ("200", b"ok"))
    if seconds == 600:
        packed.held[0].close()
        await until(lambda: stage.got(1) == ("200", b"a text"))
    await until(lambda: not stage.session._resuming)
    stage.client.feed_eof()
    await serving
    assert (stage.got(1)[1], len(packed._unpackings.waiting)) == (b"a text" if seconds == 600 else b"", 0)


async def test_refused_server_connection_is_answered_with_403() -> None:
    stage = Stage()

    def refuse() -> Streams:
        raise DialError(Refused("inside"))

    stage.dial = refuse
    stage.ask()
    assert (await stage.served())[0] == "403"


@pytest.mark.parametrize("error", [ValueError(), asyncio.CancelledError()])
async def test_answers_a_request_if_dialling_raises_an_error(error: BaseException) -> None:
    stage = Stage()

    def fall_over() -> Streams:
        raise error

    stage.dial = fall_over
    stage.ask()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    assert b"an error in the proxy, or a cancellation" in (await stage.served())[1]


NO = Decision(effect=Effect.DENY, rule=None, origin=None, reason="not at all")
REFUSED = Tunnel(client="10.0.0.3", carries=Carries.HTTP, host="a.test", port=80, decision=NO)


@pytest.mark.parametrize(
    ("tunnel", "address"),
    [(PLAIN, None), (PLAIN, ("b.test", 80)), (PLAIN, ("a.test", 81)), (REFUSED, ("a.test", 80))],
)
async def test_dials_only_the_decided_destination(tunnel: Tunnel, address: tuple[str, int] | None) -> None:
    stage = Stage(tunnel)
    seen: list[events.Event] = []
    stage.session.server_event = keep(seen)  # type: ignore[method-assign]
    connection = Server(address=address)
    await stage.session.open_connection(commands.OpenConnection(connection))
    assert connection.error == "the proxy connects only to the destination that was decided"
    assert len(seen) == 1


def keep(seen: list[events.Event]) -> Any:  # noqa: ANN401 - stands in for a method
    async def server_event(event: events.Event) -> None:
        seen.append(event)

    return server_event


async def test_aborts_a_server_that_does_not_complete_the_tls_handshake_in_time() -> None:
    stage = Stage(limits=Limits(hello_seconds=0.01))
    for tls, wanted in ((False, ""), (True, "aborted")):
        connection = Server(address=("a.test", 80), tls=tls)
        stage.session._wait_for_handshake(connection, stage.server_writer)
        await asyncio.sleep(0.03)
        assert stage.to_server.ended == wanted


async def test_an_error_in_mitmproxy_is_recorded_and_aborts_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.session.log("hello", logging.WARNING)
    assert stage.lines == []
    stage.session.log("it has crashed", logging.ERROR)
    stage.session.log("again", logging.ERROR, exc_info=(ValueError, ValueError("why"), None))
    assert [line.reason for line in stage.lines] == [
        "error in the protocol engine: it has crashed",
        "error in the protocol engine: why",
    ]
    assert stage.to_client.ended == "aborted"
    assert "it has crashed" in caplog.text


async def test_a_cancellation_in_the_layers_aborts_the_connection() -> None:
    stage = Stage()

    def cancelled(_: events.Event) -> list[commands.Command]:
        raise asyncio.CancelledError

    stage.session.layer.handle_event = cancelled  # type: ignore[assignment, method-assign]
    with pytest.raises(asyncio.CancelledError):
        await stage.session.server_event(events.Start())
    assert stage.to_client.ended == "aborted"


async def test_abort_ignores_a_client_connection_that_is_already_gone() -> None:
    stage = Stage()
    kept = stage.session.transports.pop(stage.session.client)
    stage.session.abort()
    assert stage.to_client.ended == ""
    stage.session.transports[stage.session.client] = kept


async def test_pauses_a_sender_while_too_many_bytes_are_buffered_for_the_other_side() -> None:
    stage = Stage(limits=Limits(held_bytes=10))
    held, steps = [20, 20, 5], []

    def left(*, to_client: bool) -> int:
        steps.append(to_client)
        return held.pop(0)

    stage.session.layer.held = left  # type: ignore[method-assign]
    draining = asyncio.create_task(stage.session.drain_writers())
    for wanted in (1, 2):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (len(steps), draining.done()) == (wanted, False)
        stage.session._moved.set()
    await draining
    assert steps == [True] * 3


async def test_pauses_reading_for_as_long_as_expensive_work_took(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, slept = Stage(), recorded_sleeps(monkeypatch)
    for took in (0.01, 300.0):
        stage.session._took = took
        await stage.session.drain_writers()
    assert [round(seconds) for seconds in slept] == [300]


async def test_reads_connections_that_are_or_can_become_http2_in_small_parts() -> None:
    session = Stage().session
    client = session.client
    client.alpn = None
    seen = [session._read_size(client)]
    client.tls = True
    for alpn in (None, b"http/1.1", b"h2"):
        client.alpn = alpn
        client.timestamp_tls_setup = 1.0 if alpn else None
        seen.append(session._read_size(client))
    assert seen == [LARGE_READ, SMALL_READ, LARGE_READ, SMALL_READ]


async def test_reads_from_a_server_in_the_size_that_the_search_for_echoes_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Stage().session
    monkeypatch.setattr(type(session.layer), "searched_read", COMPRESSED_READ)
    server = Server(address=("a.test", 80))
    assert (session._read_size(server), session._read_size(session.client)) == (COMPRESSED_READ, LARGE_READ)


async def test_each_session_reads_and_buffers_less_when_there_are_many() -> None:
    stage = Stage(limits=Limits(crowd=2, held_bytes=1_000))
    session, others = stage.session, [Stage().session for _ in range(2)]
    session.layer.held = lambda *, to_client: 600 + to_client  # type: ignore[method-assign]
    sessions = session._engine.sessions
    seen = []
    for one in (session, *others):
        sessions.add(one)
        seen.append((session._read_size(session.client), session._holds_much(to_client=True)))
    assert seen == [(LARGE_READ, False), (LARGE_READ, False), (SMALL_READ, False)]
    sessions.add(Stage().session)
    assert session._holds_much(to_client=True)


async def test_copies_of_request_bodies_get_the_room_that_is_left_even_while_one_side_is_paused() -> None:
    stage = Stage(limits=Limits(crowd=1, held_bytes=1_000))
    room: list[float] = []
    stage.session.layer.held = lambda *, to_client: 300 + to_client  # type: ignore[method-assign]
    stage.session.layer.limit_copies = room.append  # type: ignore[method-assign,assignment]
    await stage.session.drain_writers()
    assert room == []  # this task reads from a server
    stage.session.transports[stage.session.client].handler = asyncio.current_task()
    await stage.session.drain_writers()
    stage.session._engine.sessions.update((stage, stage.session, room.append, 4))
    stage.session._paused = True
    await stage.session.drain_writers()
    assert room == [700, -50]


async def test_counts_a_session_only_while_it_serves() -> None:
    stage = Stage()
    serving = await started(stage)
    assert stage.session._engine.crowded == 1 / Limits().crowd
    stage.session.abort()
    stage.client.feed_eof()
    await serving
    assert stage.session._engine.crowded == 0


async def test_does_not_pause_a_second_side_while_the_first_is_paused() -> None:
    stage = Stage(limits=Limits(held_bytes=10))
    stage.session._paused = True
    await stage.session.drain_writers()


async def test_does_not_dial_a_server_for_a_client_that_has_left() -> None:
    stage = Stage()
    seen: list[events.Event] = []
    stage.session.server_event = keep(seen)  # type: ignore[method-assign]
    stage.to_client.close()
    del stage.session.transports[stage.session.client]
    connection = Server(address=("a.test", 80))
    await stage.session.open_connection(commands.OpenConnection(connection))
    assert (connection.error, len(seen)) == (INTERRUPTED, 1)


async def test_drain_writers_does_not_fail_after_the_client_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    monkeypatch.delitem(stage.session.transports, stage.session.client)
    await stage.session.drain_writers()


async def test_abort_also_ends_a_server_connection_that_accepts_no_more_data() -> None:
    stage = Stage()
    serving = await started(stage)
    stage.ask(body=b"half", ends=False)
    await turns()
    assert stage.to_server.protocol
    stage.to_server.protocol.pause_writing()
    stage.streams.h2.send_data(1, b"more")
    stage.client.feed_data(stage.streams.h2.data_to_send())
    await turns()
    assert (serving.done(), stage.to_server.written.endswith(b"more\r\n"), stage.to_server.ended) == (False, True, "")
    stage.session.abort()
    await serving
    assert (stage.to_client.ended, stage.to_server.ended) == ("aborted", "aborted")


def allowing(host: str) -> Policy:
    origin = Origin(file="p", line=1, layer="p")
    asked = Conditions(host=parse_host_pattern(host))
    return Policy.of(RuleSet(rules=(Rule(effect=Effect.ALLOW, conditions=asked, origin=origin),)))


def revised(old: str, new: str) -> PolicyTransition:
    return PolicyTransition(old=allowing(old), new=allowing(new))


async def started(stage: Stage) -> asyncio.Task[None]:
    serving = asyncio.create_task(stage.session.handle_client())
    await turns()
    return serving


async def test_a_new_policy_aborts_an_idle_connection_whose_host_it_denies() -> None:
    stage = Stage()
    serving = await started(stage)
    assert await stage.session.review(revised("a.test", "a.test")) is False
    assert stage.to_client.ended == ""
    assert await stage.session.review(revised("a.test", "b.test")) is True
    assert stage.to_client.ended == "aborted"
    stage.client.feed_eof()
    await serving


async def test_a_connection_with_a_request_that_the_new_policy_denies_lingers_before_the_abort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "LINGER_SECONDS", 0.01)
    stage = Stage()
    serving = await started(stage)
    stage.ask()
    await turns()
    assert await stage.session.review(revised("a.test", "b.test")) is True
    assert (stage.to_client.ended, stage.to_server.ended) == ("", "aborted")
    await asyncio.sleep(0.03)
    assert stage.to_client.ended == "aborted"
    stage.client.feed_eof()
    await serving


async def test_keeps_the_connection_when_a_review_ends_one_stream() -> None:
    stage = Stage()
    serving = await started(stage)

    def handle(event: events.Event) -> list[commands.Command]:
        event.ended = 1  # type: ignore[attr-defined] # it is told of one event alone
        return []

    stage.session.layer.handle_event = handle  # type: ignore[assignment, method-assign]
    assert await stage.session.review(revised("a.test", "a.test")) is True
    assert stage.to_client.ended == ""
    serving.cancel()


async def dialling(stage: Stage) -> asyncio.Task[None]:
    stage.reached.clear()
    serving = await started(stage)
    stage.ask()
    await turns()
    return serving


async def test_a_new_policy_that_denies_the_host_cancels_the_dialling() -> None:
    stage = Stage()
    serving = await dialling(stage)
    (server,) = [peer for peer in stage.session.transports if isinstance(peer, Server)]
    stage.policy = allowing("b.test")
    await stage.session.review(revised("a.test", "b.test"))
    await turns()
    assert server not in stage.session.transports
    assert stage.got()[0] == "502"
    stage.reached.set()
    stage.client.feed_eof()
    await serving
    assert stage.to_server.written == b""


async def test_closes_a_server_that_the_policy_at_the_end_of_dialling_denies() -> None:
    stage = Stage()
    serving = await dialling(stage)
    stage.policy = allowing("b.test")
    stage.reached.set()
    await turns()
    stage.client.feed_eof()
    await serving
    assert (stage.to_server.written, stage.to_server.ended) == (b"", "aborted")
    assert stage.got()[0] == "502"


async def test_a_new_policy_answers_a_request_that_waits_for_a_free_connection_with_502() -> None:
    stage = Stage()
    for _ in range(5):
        await stage.session.max_conns["a.test", 80].acquire()
    serving = await dialling(stage)
    await stage.session.review(revised("a.test", "b.test"))
    await turns()
    assert stage.got()[0] == "502"
    stage.client.feed_eof()
    await serving


async def test_does_not_review_a_connection_that_has_ended() -> None:
    stage = Stage()
    kept = stage.session.transports.pop(stage.session.client)
    assert await stage.session.review(revised("a.test", "b.test")) is False
    stage.session._reset(stage.session.client)
    assert stage.to_client.ended == ""
    stage.session.transports[stage.session.client] = kept


@pytest.mark.parametrize(("number", "said"), [(7, [(socket.SOL_SOCKET, socket.SO_LINGER, RESET)]), (-1, [])])
async def test_reset_sets_so_linger_on_an_open_socket_and_aborts(
    number: int, said: list[tuple[int, int, bytes]]
) -> None:
    stage = Stage()
    options: list[tuple[int, int, bytes]] = []
    raw = SimpleNamespace(setsockopt=lambda *option: options.append(option), fileno=lambda: number)
    stage.to_client.get_extra_info = {"socket": raw}.get  # type: ignore[method-assign, assignment]
    stage.session._reset(stage.session.client)
    assert options == said
    assert stage.to_client.ended == "aborted"


async def test_keeps_a_request_that_a_grant_allowed_when_the_policy_is_reloaded() -> None:
    stage = Stage(REFUSED, Wait())
    serving = await started(stage)
    stage.ask()
    await turns()
    (exchange,) = stage.session.layer.exchanges
    assert exchange.waiting
    # A tunnel in which a request waits is not closed, though the next one would be allowed.
    assert await stage.session.review(revised("b.test", "a.test")) is False
    (rule,) = allowing("a.test").rules.rules
    granted = dataclasses.replace(
        rule, conditions=replace(rule.conditions, ports=frozenset({80}), methods=frozenset({"GET"}))
    )
    stage.session._tunnel.decision = None
    exchange.waiting.end("", grant=granted)
    await turns()
    assert stage.to_server.written == GET
    assert await stage.session.review(revised("b.test", "c.test")) is False
    assert await stage.session.review(revised("a.test", "b.test")) is False
    stage.server.feed_data(OK)
    await turns()
    stage.client.feed_eof()
    await serving
    assert stage.got() == ("200", b"ok")


@pytest.mark.usefixtures("http1")
async def test_http2_clients_share_one_server_connection_in_turn(stage: TwoKinds) -> None:
    async with stage() as on:
        for turn in range(2):
            client = await on.http2()
            for _ in range(2):
                number = client.send(f"/{turn}")
                reader, writer = on.servers[0] if on.servers else await on.server()
                assert b"GET /" in await on.get(b"\r\n\r\n", reader=reader)
                writer.write(OK)
                assert await client.answer(number) == ("200", b"ok")
            client.writer.close()
        assert (on.asked, len(on.pool), on.lines) == ([("a.test", 80)], 1, [])
        assert [[*session.transports] for session in on.http2_sessions][1:] == [[on.http2_sessions[1].client]]


@pytest.mark.usefixtures("http1")
async def test_answers_with_the_reason_if_a_shared_connection_is_refused(stage: TwoKinds) -> None:
    async with stage() as on:
        on.refusal = DialError(Refused("inside"))
        client = await on.http2()
        status, body = await client.answer(client.send("/x"))
        assert (status, b"inside" in body) == ("403", True)


@pytest.mark.usefixtures("http1")
@pytest.mark.parametrize("fault", [ValueError(), asyncio.CancelledError()])
async def test_answers_with_502_if_opening_a_shared_connection_raises_an_error(
    stage: TwoKinds, fault: BaseException
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with stage() as on:
        on.refusal = cast("DialError", fault)
        client = await on.http2()
        status, body = await client.answer(client.send("/x"))
        assert (status, b"an error in the proxy, or a cancellation" in body) == ("502", True)


@pytest.mark.usefixtures("http1")
async def test_a_policy_that_denies_the_host_resets_a_shared_connection(stage: TwoKinds, policy: PolicyOf) -> None:
    async with stage() as on:
        client = await on.http2()
        number = client.send("/x")
        reader, _ = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        old, on.policy = on.policy, policy("domains: [b.test]")
        await on.http2_sessions[0].review(PolicyTransition(old=old, new=on.policy))
        assert await on.get(reader=reader) in (b"", b"reset")
        assert (await client.answer(number))[0] == "502"
        assert len(on.pool) == 0


@pytest.mark.usefixtures("http1")
async def test_an_error_while_reading_from_a_server_is_recorded_and_closes_the_client_connection(
    stage: TwoKinds, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fall_over(*_: object) -> bytes:
        raise ValueError("no")

    monkeypatch.setattr(SharedStream, "read", fall_over)
    async with stage() as on:
        client = await on.http2()
        number = client.send("/x")
        reader, _ = await on.server()
        assert await client.answer(number) == (GONE, b"")
        assert (await on.get(reader=reader)).startswith((b"GET /x", b"reset"))
        assert [line.reason for line in on.lines] == ["error in the protocol engine: no"]


async def test_the_idle_timeout_ends_with_its_session_even_if_it_has_not_begun() -> None:
    async def ignore() -> None:
        """Nothing times out here."""

    for steps in (0, 2):
        watchdog = subject.Watchdog(600, ignore)
        task = asyncio.create_task(watchdog.watch())
        for _ in range(steps):
            await asyncio.sleep(0)
        watchdog.end()
        await asyncio.wait_for(task, 1)


def test_turns_off_unsafe_options_of_mitmproxy() -> None:
    options = EngineOptions()
    assert (options.connection_strategy, options.validate_inbound_headers) == ("lazy", True)
    assert (options.rawtcp, options.websocket) == (False, False)
    assert not hasattr(options, "ssl_insecure")  # reading one that is unknown is an error
