from __future__ import annotations

import pytest
from mitmproxy import http
from mitmproxy.flow import Error
from mitmproxy.test import tflow

from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.tunnel import Carries, Tunnel

TUNNEL = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)


def flow(status: int = 200, *fields: tuple[bytes, bytes], decision: str = "allow") -> tuple[http.HTTPFlow, Exchange]:
    made = tflow.tflow(resp=True)
    assert made.response
    made.response.status_code = status
    made.response.headers = http.Headers(fields)
    exchange = open_exchange(made, client="", started=0)
    exchange.line.decision = decision
    return made, exchange


def test_a_response_is_streamed_without_hints() -> None:
    made, exchange = flow(200, (b"Alt-Svc", b"h3"), (b"A", b"b"))
    Streamer().responseheaders(made, TUNNEL)
    assert made.response
    assert (made.response.stream, made.error) == (exchange.received, None)
    assert made.response.headers.fields == ((b"A", b"b"),)


def test_our_own_denial_keeps_its_mark_and_no_server_can_forge_it() -> None:
    for decision, wanted in (("allow", ()), ("deny", ((b"x-agent-sandbox", b"blocked"),))):
        made, _ = flow(403, (b"x-agent-sandbox", b"blocked"), decision=decision)
        Streamer().responseheaders(made, TUNNEL)
        assert made.response
        assert made.response.headers.fields == wanted


def test_a_switch_that_was_asked_for_goes_on() -> None:
    made, exchange = flow(101, (b"Upgrade", b"WebSocket"))
    exchange.websocket = True
    Streamer().responseheaders(made, TUNNEL)
    assert made.error is None


@pytest.mark.parametrize(("websocket", "upgrade"), [(False, b"websocket"), (True, b"foo")])
def test_a_switch_that_was_not_asked_for_is_the_end(websocket: bool, upgrade: bytes) -> None:  # noqa: FBT001
    made, exchange = flow(101, (b"Upgrade", upgrade))
    exchange.websocket = websocket
    Streamer().responseheaders(made, TUNNEL)
    assert made.error
    assert made.error.msg == Error.KILLED_MESSAGE
    assert exchange.line.reason == "the server switched to a protocol that the client did not request"


def test_a_response_that_nobody_decided_is_the_end() -> None:
    made = tflow.tflow(resp=True)
    Streamer().responseheaders(made, TUNNEL)
    assert made.error


def test_failed_flow_keeps_its_error() -> None:
    made, _ = flow()
    made.error = Error("gone")
    Streamer().responseheaders(made, TUNNEL)
    assert made.error.msg == "gone"


def test_trailers_of_a_request_are_dropped() -> None:
    made, _ = flow()
    made.request.trailers = http.Headers([(b"X", b"y")])
    Streamer().request(made, TUNNEL)
    assert made.request.trailers is None


def test_an_echo_of_a_secret_is_seen_in_no_part_of_an_answer() -> None:
    made, exchange = flow(200, (b"X-You", b"said: hunter22!"), (b"hunter22", b"a"))
    assert made.response
    made.response.data.reason = b"OK hunter22"
    exchange.echoes = (b"hunter22",)
    Streamer().responseheaders(made, TUNNEL)
    assert made.response.headers.fields == ((b"X-You", b"said: ********!"), (b"********", b"a"))
    assert made.response.data.reason == b"OK ********"
    passed = [exchange.received(data) for data in (b"a hunt", b"er22 b", b"")]
    assert b"".join(passed) == b"a ******** b"
    assert exchange.received.count == len(b"a hunter22 b")
    made.response.trailers = http.Headers([(b"said", b"hunter22")])
    Streamer().response(made, TUNNEL)
    assert made.response.trailers.fields == ((b"said", b"********"),)


def test_fields_that_repeat_nothing_stay_as_they_are() -> None:
    made, exchange = flow(200, (b"X", b"hunter"), (b"22", b"y"))
    assert made.response
    exchange.echoes = (b"hunter22",)
    Streamer().responseheaders(made, TUNNEL)
    assert made.response.headers.fields == ((b"X", b"hunter"), (b"22", b"y"))


@pytest.mark.parametrize("echoes", [(), (b"hunter22",)])
def test_an_answer_without_trailers_or_secrets_has_its_own(echoes: tuple[bytes, ...]) -> None:
    made, exchange = flow()
    assert made.response
    exchange.echoes = echoes
    made.response.trailers = None if echoes else http.Headers([(b"a", b"hunter22")])
    Streamer().response(made, TUNNEL)
    assert made.response.trailers == (None if echoes else http.Headers([(b"a", b"hunter22")]))
