from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import h2.config
import h2.connection
import h2.events
import pytest
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events
from OpenSSL import SSL

from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.http1_client import AbortConnection, CutConnection
from agent_sandbox.proxy.mitm.http1_server import StrictHttp1Server
from agent_sandbox.proxy.mitm.http2_server import StrictHttp2Server
from agent_sandbox.proxy.mitm.http_layer import PolicyReplaced, RejectionTls, StrictHttpLayer
from agent_sandbox.proxy.mitm.stream import StrictStream
from agent_sandbox.proxy.net.bulk_reader import COMPRESSED_READ, SMALL_READ
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.redaction import NO_ECHOES, Echoes
from agent_sandbox.proxy.secrets.unpacking import Unpacking
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import NotReached
from agent_sandbox.proxy.wire.message import ResponseHead
from lane_stage import OK
from layer_harness import HTTP2_FIELDS, PLAIN, Deny, Http2Wire, Malformed, Wait, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_sandbox.policy import Policy
    from agent_sandbox.proxy.exchange.waiting import Waiting
    from agent_sandbox.proxy.mitm.shared_server import SharedServer, Sharing
    from http2_stage import Http2Stage

    type Stage = Callable[..., Http2Stage]

GET = b"GET /x HTTP/1.1\r\nHost: %s\r\n\r\n"


def http_layer(wire: Wire) -> StrictHttpLayer:
    layer = wire.layer._child
    assert isinstance(layer, StrictHttpLayer)
    return layer


def test_a_tunnel_connects_to_its_destination_even_if_a_request_names_another_host() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET % b"evil.test")
    assert [server.address for server in wire.servers] == [("a.test", 80)]


def test_the_next_request_uses_the_same_server_connection() -> None:
    wire = Wire(PLAIN)
    for _ in range(2):
        wire.client_sends(GET % b"a.test")
        wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert len(wire.servers) == 1


def test_read_size_of_a_searched_response_depends_on_its_head_and_compression() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET % b"a.test")
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


def test_uses_the_strict_http1_and_http2_servers_for_clients() -> None:
    for alpn, kind in ((None, StrictHttp1Server), (b"h2", StrictHttp2Server)):
        wire = Wire(PLAIN, alpn=alpn)
        assert type(http_layer(wire).connections[wire.client]) is kind


def test_uses_a_strict_stream_for_each_request() -> None:
    wire = Wire(PLAIN)
    wire.client_sends((GET % b"a.test")[:-4] + b"\r\nContent-Length: 1\r\n\r\n")
    assert [type(stream) for stream in http_layer(wire).streams.values()] == [StrictStream]


def test_terminates_tls_below_the_http_layer() -> None:
    wire = Wire(Tunnel(client="", carries=Carries.TLS, host="a.test", port=443))
    layer = wire.layer._child
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
    ("command", "established", "state", "said"),
    [
        (commands.CloseConnection, True, ConnectionState.OPEN, b"goodbye"),
        (commands.CloseConnection, False, ConnectionState.OPEN, None),
        (commands.CloseConnection, True, ConnectionState.CAN_READ, None),
        (CutConnection, True, ConnectionState.OPEN, None),
        (AbortConnection, True, ConnectionState.OPEN, None),
    ],
)
def test_sends_close_notify_only_on_an_orderly_close_of_an_established_connection(
    command: type[commands.CloseConnection], *, established: bool, state: ConnectionState, said: bytes | None
) -> None:
    layer = Wire(Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)).layer._child
    assert isinstance(layer, RejectionTls)
    layer.tls = Tls()  # type: ignore[assignment] # as much of one as a farewell takes
    layer.conn.timestamp_tls_setup = 1.0 if established else None
    layer.conn.state = state
    close = command(layer.conn)
    sent = [one.data if isinstance(one, commands.SendData) else one for one in layer.send_close(close)]
    assert sent == ([said, close] if said else [close])


def test_an_explicit_proxy_connection_connects_to_the_host_of_each_request() -> None:
    wire = Wire(Tunnel(client="", carries=Carries.PROXY))
    for host in ("a.test", "b.test"):
        wire.client_sends(f"GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert [server.address for server in wire.servers] == [("a.test", 80), ("b.test", 80)]


def test_the_next_request_retries_a_failed_server_connection() -> None:
    wire = Wire(PLAIN)
    wire.refuse_dial = NotReached("gone")
    wire.client_sends(GET % b"a.test")
    wire.refuse_dial = None
    wire.client_sends(GET % b"a.test")
    assert len(wire.servers) == 1


def test_forgets_servers_that_closed_or_were_not_reached() -> None:
    wire = Wire(PLAIN)
    for _ in range(3):
        wire.refuse_dial = NotReached("gone")
        wire.client_sends(GET % b"a.test")
        wire.refuse_dial = None
        wire.client_sends(GET % b"a.test")
        wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        wire.closes(wire.servers[-1])
    wire.client_sends(GET % b"a.test")
    assert [*http_layer(wire).connections] == [wire.client, wire.servers[3]]


def test_keeps_a_closed_server_while_its_stream_is_open() -> None:
    wire = Http2Wire()
    wire.request(body=b"half", trailers=True)
    gone = wire.servers[0]
    stream = next(iter(http_layer(wire).streams.values()))
    wire.closes(gone)
    http_layer(wire).streams[1] = stream
    wire.request()
    assert (gone in http_layer(wire).connections, len(wire.servers)) == (True, 2)


def test_keeps_idle_server_connections_up_to_the_limit() -> None:
    wire = Wire(Tunnel(client="10.0.0.3", carries=Carries.PROXY), limits=Limits(servers_idle=2))
    for host in (b"a", b"b", b"c", b"d", b"a"):
        wire.client_sends(b"GET http://%s.test/ HTTP/1.1\r\nHost: %s.test\r\n\r\n" % (host, host))
        wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    a, b, c, d, again = wire.servers
    assert (wire.closed, again.address, c.connected, d.connected) == ([a, b], ("a.test", 80), True, True)


def test_runs_a_nonblocking_hook_once() -> None:
    log = Malformed()
    Wire(PLAIN, log).client_sends(b"\0")
    assert log.reasons == ["the request does not begin with a method"]


def test_counts_buffered_bytes_for_the_client_and_for_servers_separately() -> None:
    wire = Http2Wire()
    wire.request()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + bytes(70_000))
    assert (wire.layer.held(to_client=True), wire.layer.held(to_client=False)) == (70_000 - 65_535, 0)


def test_counts_the_bytes_that_arrived_after_the_current_request() -> None:
    wire = Wire(PLAIN)
    wire.client_sends((GET % b"a.test") * 3)
    assert (wire.layer.behind, Http2Wire().layer.behind) == (len(GET % b"a.test") * 2, 0)


def test_joins_all_data_of_one_event_into_one_write() -> None:
    wire = Wire(PLAIN, Deny())
    led_to = wire.layer.handle_event(events.DataReceived(wire.client, GET % b"a.test"))
    (answer,) = (command.data for command in led_to if isinstance(command, commands.SendData))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403")
    assert b'"reason": "no"' in body


def test_is_idle_between_requests() -> None:
    wire = Wire(PLAIN)
    assert wire.layer.idle
    wire.client_sends(GET % b"a.test")
    assert not wire.layer.idle
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert wire.layer.idle


def test_a_new_policy_ends_only_the_streams_that_it_denies(policy: Callable[[str], Policy]) -> None:
    old = policy("domains: [a.test]")
    wire = Http2Wire(Enforcer(lambda: old, clock=lambda: 0.0))
    wire.request(body=b"", trailers=False)
    wire.h2.send_headers(3, [*HTTP2_FIELDS[:3], (":path", "/kept")], end_stream=True)
    wire.client_sends(wire.h2.data_to_send())
    event = PolicyReplaced(
        PolicyTransition(old=old, new=policy("domains: [{host: a.test, rules: [{path: {exact: /kept}}]}]"))
    )
    wire.feed(event)
    answered = {event.stream_id for event in wire.events() if isinstance(event, h2.events.ResponseReceived)}
    assert (event.ended, answered, len(http_layer(wire).streams)) == (1, {1}, 1)


def test_a_new_policy_denies_one_of_two_streams_that_wait_for_the_same_server_at_once(
    policy: Callable[[str], Policy],
) -> None:
    old, new = (
        policy(f"domains: [{{host: a.test, rules: [{{path: {{prefix: {path}}}}}]}}]") for path in ("/", "/kept")
    )
    wire = Http2Wire(Enforcer(lambda: old, clock=lambda: 0.0), Streamer())
    wire.patient = True
    for path in ("/kept", "/gone"):
        wire.request(path=path)
    wire.feed(PolicyReplaced(PolicyTransition(old=old, new=new)))
    (answer,) = (event for event in wire.events() if isinstance(event, h2.events.ResponseReceived))
    assert (answer.stream_id, dict(answer.headers)[b":status"]) == (3, b"403")
    wire.reached()
    assert wire.to_server.startswith(b"POST /kept HTTP/1.1")
    assert b"/gone" not in wire.to_server


def test_ignores_the_timer_of_a_stream_that_has_ended() -> None:
    wire = Wire(PLAIN)
    http = http_layer(wire)
    stream = StrictStream(http.context.fork(), 1, Limits())
    stream.patience = commands.RequestWakeup(9.0)
    http.streams[1] = stream
    http.command_sources[stream.patience] = stream
    assert http.streams.pop(1) is stream
    (left,) = http.command_sources.values()
    assert left is not stream
    assert list(left.handle_event(events.Wakeup(stream.patience))) == []


def waiting(wire: Wire) -> Waiting:
    """Return what the only request of a connection waits for."""
    (exchange,) = wire.layer.exchanges
    assert exchange.waiting
    return exchange.waiting


def test_a_waiting_request_is_forwarded_when_it_is_resumed() -> None:
    wire = Wire(PLAIN, Wait())
    assert wire.client_sends(GET % b"a.test") == b""
    waiting(wire).end("")
    (resumed,) = wire.resumed
    assert wire.servers == []
    wire.feed(resumed)
    assert [server.address for server in wire.servers] == [("a.test", 80)]
    assert wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").startswith(b"HTTP/1.1 200 OK")
    wire.feed(resumed)
    assert wire.faults == []


def test_a_waiting_request_that_is_not_allowed_gets_its_denial() -> None:
    wire = Wire(PLAIN, Wait())
    wire.client_sends(GET % b"a.test")
    waiting(wire).end("nobody answered")
    wire.feed(wire.resumed.pop())
    assert (b"nobody answered" in wire.sent[wire.client], wire.servers) == (True, [])


def test_does_not_resume_a_request_whose_stream_has_ended() -> None:
    wire = Wire(PLAIN, Wait())
    wire.client_sends(GET % b"a.test")
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
    wire = Http2Wire()
    http_layer(wire)._sharing = cast("Sharing", Allows())
    wire.server_alpn = b"h2"
    wire.request(body=b"of any length")
    answering = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    answering.initiate_connection()
    answering.receive_data(wire.to_server)
    answering.send_headers(1, [(":status", "204")], end_stream=True)
    wire.server_sends(answering.data_to_send())
    wire.request()
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


@pytest.mark.usefixtures("http1")
async def test_does_not_share_connections_if_the_lane_is_off(stage: Stage, policy: Callable[[str], Policy]) -> None:
    async with stage() as on:
        on.policy = policy("domains: [a.test]\nsettings: {http1: mitmproxy}")
        _, (reader, _) = await on.answered_over_http2()
        assert (await on.get(reader=reader), len(on.pool)) == (b"", 0)
