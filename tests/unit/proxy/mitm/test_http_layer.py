import asyncio
from collections.abc import Callable
from typing import Any, cast, override

import pytest
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.commands import CloseConnection, Command, SendData
from mitmproxy.proxy.context import Context
from OpenSSL import SSL

from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.http_layer import (
    EVENT_BYTES,
    NOT_HTTP2,
    Destination,
    PolicyReplaced,
    RejectionTls,
    StrictHttpLayer,
    buffered_bytes,
    coalesce,
    waiting_bytes,
)
from agent_sandbox.proxy.mitm.session import EngineOptions
from agent_sandbox.proxy.mitm.shared_server import SharedServer, Sharing
from agent_sandbox.proxy.mitm.stream import StrictStream
from agent_sandbox.proxy.net.bulk_reader import COMPRESSED_READ, SMALL_READ
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.redaction import NO_ECHOES, Echoes
from agent_sandbox.proxy.secrets.unpacking import Unpacking
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import NotReached
from agent_sandbox.proxy.wire.message import ResponseHead
from http2_stage import Http2Stage
from http2client import fields as request_fields
from lane_stage import OK
from layer_harness import PLAIN, Deny, LetThrough, Malformed, Wait, Wire, goaway, requests_at, server_end
from policy_texts import PolicyOf

type Stage = Callable[..., Http2Stage]

HTTP2_OK = [(":status", "204")]
ONE, OTHER = Server(address=("a.test", 80)), Server(address=("b.test", 80))


def http_layer(wire: Wire) -> StrictHttpLayer:
    return wire.layer._http


def over_tls() -> Destination:
    """Return the layers as they are in the proxy."""
    client = Client(peername=("10.0.0.3", 1), sockname=("10.0.0.2", 8080), state=ConnectionState.OPEN)
    context = Context(client, cast("Any", EngineOptions()))
    return Destination(context, PLAIN, Limits(), lambda *_: None, lambda _: None, lambda _: None)


def test_a_tunnel_connects_to_its_destination_even_if_a_request_names_another_host() -> None:
    wire = Wire()
    wire.h2.send_headers(1, request_fields("/x", "evil.test"), end_stream=True)
    wire.flush()
    assert [server.address for server in wire.servers] == [("a.test", 80)]


def test_the_next_request_uses_the_same_http2_server_connection() -> None:
    wire = Wire()
    wire.server_alpn = b"h2"
    wire.ask()
    end = server_end(wire)
    end.send_headers(1, HTTP2_OK, end_stream=True)
    wire.server_sends(end.data_to_send())
    wire.ask()
    assert (wire.got(), len(wire.servers)) == (b"204 ", 1)


def test_read_size_of_a_searched_response_depends_on_its_head_and_compression() -> None:
    wire = Wire()
    wire.ask()
    seen = [wire.layer.searched_read]
    (exchange,) = wire.layer.exchanges
    exchange.echoes = Echoes([b"hunter22"])
    seen.append(wire.layer.searched_read)
    exchange.response = ResponseHead(200, b"OK", ())
    seen.append(wire.layer.searched_read)
    exchange.received.unpacking = Unpacking(b"gzip")
    seen.append(wire.layer.searched_read)
    exchange.echoes = NO_ECHOES  # a list of tools is decompressed, too
    seen.append(wire.layer.searched_read)
    assert seen == [0, SMALL_READ, 0, COMPRESSED_READ, COMPRESSED_READ]


@pytest.mark.parametrize("alpn", [None, b"", b"http/1.1"])
def test_closes_the_connection_of_a_client_that_did_not_agree_on_http2(alpn: bytes | None) -> None:
    log = Malformed()
    wire = Wire(log, alpn=alpn)
    wire.client_sends(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    wire.closes(wire.client)
    assert (log.reasons, wire.closed, wire.to_client, wire.servers) == ([NOT_HTTP2], [wire.client], b"", [])


def test_terminates_tls_below_the_http_layer() -> None:
    layer = over_tls()._child
    assert isinstance(layer, RejectionTls)
    assert isinstance(layer.child_layer, StrictHttpLayer)
    assert layer.context.server.tls


class Tls:
    """Stands in for OpenSSL: has one farewell to say."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []

    def shutdown(self) -> None:
        """Make it."""
        self.waiting.append(b"goodbye")

    def bio_read(self, _: int) -> bytes:
        """Give it away."""
        if not self.waiting:
            raise SSL.WantReadError
        return self.waiting.pop()


@pytest.mark.parametrize(
    ("established", "state", "said"),
    [
        (True, ConnectionState.OPEN, b"goodbye"),
        (False, ConnectionState.OPEN, None),
        (True, ConnectionState.CAN_READ, None),
    ],
)
def test_sends_close_notify_only_on_an_established_connection(
    *, established: bool, state: ConnectionState, said: bytes | None
) -> None:
    layer = over_tls()._child
    assert isinstance(layer, RejectionTls)
    layer.tls = Tls()  # type: ignore[assignment] # as much of one as a farewell takes
    layer.conn.timestamp_tls_setup = 1.0 if established else None
    layer.conn.state = state
    close = commands.CloseConnection(layer.conn)
    sent = [one.data if isinstance(one, commands.SendData) else one for one in layer.send_close(close)]
    assert sent == ([said, close] if said else [close])


def test_forgets_servers_that_closed_or_were_not_reached() -> None:
    wire = Wire()
    for _ in range(3):
        wire.refuse_dial = NotReached("gone")
        wire.ask()
        wire.refuse_dial = None
        wire.ask()
        wire.server_sends(OK)
        wire.closes(wire.servers[-1])
    wire.ask()
    assert [*http_layer(wire).connections] == [wire.client, wire.servers[3]]


def test_keeps_a_closed_server_while_its_stream_is_open() -> None:
    wire = Wire()
    wire.ask(method="POST", body=b"half", ends=False)
    gone = wire.servers[0]
    stream = next(iter(http_layer(wire).streams.values()))
    wire.closes(gone)
    http_layer(wire).streams[1] = stream
    wire.ask()
    assert (gone in http_layer(wire).connections, len(wire.servers)) == (True, 2)


class Filled(LetThrough):
    """Injects another secret into each request, so that none can share a connection."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Inject it."""
        super().requestheaders(exchange, tunnel)
        exchange.echoes = Echoes([exchange.path.encode()])


def test_keeps_idle_server_connections_up_to_the_limit() -> None:
    wire = Wire(Filled(), limits=Limits(servers_idle=2))
    wire.server_alpn = b"h2"
    for path in ("/secret-a", "/secret-b", "/secret-c", "/secret-d", "/secret-a"):
        wire.ask(path)
        end = server_end(wire)
        end.send_headers(1, HTTP2_OK, end_stream=True)
        wire.server_sends(end.data_to_send())
    a, b, c, d, _ = wire.servers
    assert (wire.closed, c.connected, d.connected) == ([a, b], True, True)


def leaving(wire: Wire, paths: list[str]) -> None:
    """Have a server begin the response to each of these requests, and end its connection."""
    for number, path in enumerate(paths):
        wire.ask(path)
        end = server_end(wire, number)
        end.send_headers(1, HTTP2_OK)
        wire.server_sends(end.data_to_send() + goaway(1), number)


def test_closes_the_oldest_connection_that_is_ending_when_a_new_one_would_have_to_wait() -> None:
    wire = Wire()
    wire.server_alpn = b"h2"
    leaving(wire, ["/a", "/b", "/c", "/d"])
    wire.ask("/e")
    assert (len(wire.servers), wire.closed) == (5, [])
    wire.ask("/f")  # shares the fifth
    assert (len(wire.servers), wire.closed) == (5, [])
    wire.server_sends(goaway(3))
    wire.ask("/g")
    assert (len(wire.servers), wire.closed) == (6, [wire.servers[0]])
    wire.closes(wire.servers[0])
    assert wire.got() == b"204 reset "
    assert requests_at(wire) == [b"GET /g "]


def test_closes_no_connection_for_a_new_one_if_none_is_ending() -> None:
    wire = Wire(Filled())
    wire.server_alpn = b"h2"
    for path in ("/secret-a", "/secret-b", "/secret-c", "/secret-d", "/secret-e", "/secret-f"):
        wire.ask(path)
    assert (len(wire.servers), wire.closed) == (6, [])


def test_forgets_the_largest_copies_of_request_bodies_first() -> None:
    wire = Wire()
    wire.server_alpn = b"h2"
    for size in (30, 50, 20, 0):
        wire.ask(method="POST", body=bytes(size))
    seen = []
    for most in (100, 60, 20, -1):
        wire.layer.limit_copies(most)
        streams = cast("dict[int, StrictStream]", http_layer(wire).streams)
        seen.append([None if stream.copied is None else len(stream.copied) for stream in streams.values()])
    assert seen == [[30, 50, 20, 0], [30, None, 20, 0], [None, None, 20, 0], [None, None, None, 0]]


def test_joins_all_data_of_one_event_into_one_write() -> None:
    wire = Wire(Deny())
    wire.flush()
    wire.streams.begin(request_fields("/x", "a.test", scheme="http"), None)
    led_to = wire.layer.handle_event(events.DataReceived(wire.client, wire.h2.data_to_send()))
    (answer,) = [command.data for command in led_to if isinstance(command, commands.SendData)]
    wire.sent[wire.client] += answer
    assert wire.got().startswith(b"403 ")
    assert b'"reason": "no"' in wire.got()


def test_a_new_policy_ends_only_the_streams_that_it_denies(policy: PolicyOf) -> None:
    old = policy("domains: [a.test]")
    wire = Wire(Enforcer(lambda: old, clock=lambda: 0.0))
    for path in ("/gone", "/kept"):
        wire.ask(path)
    event = PolicyReplaced(
        PolicyTransition(old=old, new=policy("domains: [{host: a.test, rules: [{path: {exact: /kept}}]}]"))
    )
    wire.feed(event)
    assert (event.ended, wire.got(1)[:4], wire.got(3), len(http_layer(wire).streams)) == (1, b"403 ", b"...", 1)


def test_a_new_policy_denies_one_of_two_streams_that_wait_for_the_same_server_at_once(policy: PolicyOf) -> None:
    old, new = (
        policy(f"domains: [{{host: a.test, rules: [{{path: {{prefix: {path}}}}}]}}]") for path in ("/", "/kept")
    )
    wire = Wire(Enforcer(lambda: old, clock=lambda: 0.0), Streamer())
    wire.patient = True
    for path in ("/kept", "/gone"):
        wire.ask(path)
    wire.feed(PolicyReplaced(PolicyTransition(old=old, new=new)))
    assert (wire.got(1), wire.got(3)[:4]) == (b"...", b"403 ")
    wire.reached()
    assert wire.to_server.startswith(b"GET /kept HTTP/1.1")
    assert b"/gone" not in wire.to_server


def test_ignores_the_timer_of_a_stream_that_has_ended() -> None:
    http = http_layer(Wire())
    stream = StrictStream(http.context.fork(), 1, Limits())
    stream.patience = commands.RequestWakeup(9.0)
    http.streams[1] = stream
    http.command_sources[stream.patience] = stream
    assert http.streams.pop(1) is stream
    left = http.command_sources[stream.patience]
    assert left is not stream
    assert list(left.handle_event(events.Wakeup(stream.patience))) == []


def waiting(wire: Wire) -> Waiting:
    """Return what the only request of a connection waits for."""
    (exchange,) = wire.layer.exchanges
    assert exchange.waiting
    return exchange.waiting


def test_a_waiting_request_is_forwarded_when_it_is_resumed() -> None:
    wire = Wire(Wait())
    wire.ask()
    assert wire.got() == b"..."
    waiting(wire).end("")
    (resumed,) = wire.resumed
    assert wire.servers == []
    wire.feed(resumed)
    assert [server.address for server in wire.servers] == [("a.test", 80)]
    wire.server_sends(OK)
    assert wire.got() == b"200 ok"
    wire.feed(resumed)
    assert wire.faults == []


def test_a_waiting_request_that_is_not_allowed_gets_its_denial() -> None:
    wire = Wire(Wait())
    wire.ask()
    waiting(wire).end("nobody answered")
    wire.feed(wire.resumed.pop())
    assert (b"nobody answered" in wire.got(), wire.servers) == (True, [])


def test_does_not_resume_a_request_whose_stream_has_ended() -> None:
    wire = Wire(Wait())
    wire.ask()
    waiting(wire).end("")
    http_layer(wire).command_sources.clear()
    wire.feed(wire.resumed.pop())
    assert (wire.servers, wire.faults) == ([], [])


class Allows:
    """A `Sharing` that allows every connection."""

    def allows(self, _: SharedServer) -> bool:
        """Do."""
        return True


def test_prefers_an_open_http2_connection_to_a_shared_connection() -> None:
    wire = Wire()
    http_layer(wire)._sharing = cast("Sharing", Allows())
    wire.server_alpn = b"h2"
    wire.ask(method="POST", body=b"of any length")
    end = server_end(wire)
    end.send_headers(1, HTTP2_OK, end_stream=True)
    wire.server_sends(end.data_to_send())
    wire.ask()
    assert len(wire.servers) == 1
    assert not wire.opening


@pytest.mark.usefixtures("http1")
async def test_opens_two_connections_for_two_concurrent_requests_and_keeps_one_in_the_pool(stage: Stage) -> None:
    async with stage() as on:
        client = await on.http2()
        numbers, servers = [], []
        for turn in range(2):
            numbers.append(client.send(f"/{turn}"))
            servers.append(await on.server())
            await on.get(b"\r\n\r\n", reader=servers[-1][0])
        for _, writer in servers:
            writer.write(OK)
        assert [await client.answer(number) for number in numbers] == [("200", b"ok")] * 2
        await asyncio.sleep(0.02)
        assert (len(on.asked), len(on.pool)) == (2, 1)


def written(*commands: Command) -> list[tuple[Server, bytes] | Command]:
    """Tell what is sent from what is done."""
    return [
        (command.connection, command.data)  # type: ignore[misc] # there are servers here alone
        if isinstance(command, SendData)
        else command
        for command in coalesce(commands)
    ]


def test_joins_consecutive_data_for_the_same_connection() -> None:
    assert written(SendData(ONE, b"a"), SendData(ONE, b"b"), SendData(OTHER, b"c")) == [(ONE, b"ab"), (OTHER, b"c")]


def test_keeps_the_order_of_data_and_other_commands() -> None:
    close = CloseConnection(ONE)
    assert written(SendData(ONE, b"a"), close, SendData(ONE, b"b")) == [(ONE, b"a"), close, (ONE, b"b")]


def test_yields_other_commands_without_reading_ahead() -> None:
    commands = iter([CloseConnection(ONE), CloseConnection(OTHER)])
    assert isinstance(next(coalesce(commands)), CloseConnection)
    assert len(list(commands)) == 1


def test_no_bytes_are_buffered_over_http1() -> None:
    assert buffered_bytes([Wire().layer._http]) == 0


def test_counts_bytes_that_an_http2_client_does_not_accept() -> None:
    wire = Wire()
    wire.ask()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000))
    ends = wire.layer._http.connections
    assert buffered_bytes(ends.values()) == 100_000 - 65_535
    assert wire.layer.held(to_client=True) == 100_000 - 65_535
    assert wire.layer.held(to_client=False) == 0


def test_counts_body_bytes_that_arrive_while_the_server_is_being_dialled() -> None:
    wire = Wire()
    wire.patient = True
    number = wire.ask("/x", ("content-length", "1000"), method="POST", body=bytes(300), ends=False)
    wire.more(number, bytes(400))
    assert waiting_bytes(wire.layer._http.streams.values(), to_client=False) == 700 + 2 * EVENT_BYTES
    assert (wire.layer.held(to_client=False), wire.layer.held(to_client=True)) == (700 + 2 * EVENT_BYTES, 0)
    wire.reached()
    wire.more(number, bytes(300), ends=True)
    assert wire.layer.held(to_client=False) == 0
    assert wire.to_server.endswith(bytes(1000))
