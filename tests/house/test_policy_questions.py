"""The policy engine decides each request once: these tests count the calls of its functions."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import cast

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policy.engine.decide import allows, decide, decide_connect
from agent_sandbox.policyfile import load_policy
from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import open_exchange
from agent_sandbox.proxy.exchange.hooks import hook_table
from agent_sandbox.proxy.front.explicit_proxy import ExplicitProxy
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.injector import Injector
from agent_sandbox.proxy.secrets.store import put_secret
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import Dialler
from agent_sandbox.proxy.upstream.proxy_connect import Streams
from agent_sandbox.proxy.wire.message import RequestHead
from client_hellos import hello
from lane_stage import PLAIN, LaneStage, pair_of_sockets
from layer_harness import Wire
from websocket_client import frame, handshake

RULES = """
version: 1
domains:
  - {host: a.test, rules: [{path: {prefix: /x}}, {path: {exact: /graphql}, graphql: {query: [viewer]}}]}
  - {host: b.test, inspect: false}
"""
GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
QUESTION = b'{"query": "{viewer{login}}"}'
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
CODES = {function.__code__: function.__name__ for function in (decide, allows, decide_connect)}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the calls of the policy engine by code object, because each module imports the functions by name."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in CODES:
            calls[CODES[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.fixture
def policy(tmp_path: Path) -> Callable[[str], Policy]:
    """Compile the text of a policy file."""

    def compiled(text: str) -> Policy:
        path = tmp_path / "policy.yaml"
        path.write_text(text)
        return load_policy(path)

    return compiled


def addons(policy: Policy, secrets: Path | None = None) -> tuple[Enforcer, Streamer]:
    return Enforcer(lambda: policy, clock=lambda: 0.0, injector=Injector(secrets)), Streamer()


def test_a_request_calls_decide_once(policy: Callable[[str], Policy]) -> None:
    wire = Wire(*addons(policy(RULES)))
    with counted() as calls:
        wire.ask()
        wire.server_sends(OK)
    assert (wire.got(), calls) == (b"200 ok", {"decide": 1})


def test_a_denied_request_calls_decide_once_if_no_rule_reads_bodies(policy: Callable[[str], Policy]) -> None:
    wire = Wire(*addons(policy("version: 1\ndomains: [b.test]")))
    with counted() as calls:
        wire.ask()
    assert wire.got().startswith(b"403")
    assert calls == {"decide": 1}


def test_a_body_that_is_read_is_decided_separately(policy: Callable[[str], Policy]) -> None:
    wire = Wire(*addons(policy(RULES)))
    with counted() as calls:
        number = wire.ask("/graphql", ("content-type", "application/json"), method="POST", ends=False)
    # Is the head allowed, and if not: could a body make it so?
    assert calls == {"decide": 1, "allows": 1}
    with counted() as calls:
        wire.more(number, QUESTION, ends=True)
    assert calls == {"decide": 1}
    assert QUESTION in wire.to_server


def test_each_http2_stream_calls_decide_once(policy: Callable[[str], Policy]) -> None:
    wire = Wire(*addons(policy(RULES)))
    with counted() as calls:
        wire.ask("/x/1")
        wire.ask("/x/2", method="POST", body=b"body")
    assert (len(wire.servers), calls) == (2, {"decide": 2})


async def test_a_websocket_calls_decide_once_for_all_its_messages(policy: Callable[[str], Policy]) -> None:
    current, sent, said = policy(RULES), frame(b"abc", masked=True), frame(b"hi", masked=False)
    async with LaneStage(current, *addons(current), tunnel=PLAIN) as on:
        with counted() as calls:
            await on.answered(handshake("/x", "a.test"), SWITCH, until=b"\r\n\r\n")
            reader, writer = on.servers[0]
            for _ in range(3):
                on.send(sent)
                assert await on.get(sent, reader=reader) == sent
                writer.write(said)
                assert await on.get(said) == said
    assert calls == {"decide": 1}


@pytest.mark.parametrize(("stored", "questions"), [(True, 1), (False, 2)])
def test_a_request_whose_secret_is_missing_is_decided_again_without_the_secret(
    policy: Callable[[str], Policy], tmp_path: Path, *, stored: bool, questions: int
) -> None:
    current = policy("""
version: 1
domains:
- host: a.test
  transform: {request: {headers: {Authorization: {secret: token, transform: {type: bearer}}}}}
""")
    if stored:
        put_secret(tmp_path, "token", ["a.test"], b"correct horse")
    enforcer, _ = addons(current, tmp_path)
    tunnel = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)
    head = RequestHead(b"GET", b"/", b"HTTP/1.1", ((b"Host", b"a.test"),))
    exchange = open_exchange(head, tunnel, started=0.0)
    with counted() as calls:
        enforcer.requestheaders(exchange, tunnel)
    assert (exchange.allowed, calls) == (stored, {"decide": questions})


class Front:
    """A proxy, a client and the server, over socket pairs."""

    def __init__(self, policy: Policy) -> None:
        engine = Engine(
            hooks=hook_table(*addons(policy)),
            dialler=cast("Dialler", self),
            limits=Limits(),
            record=lambda _: None,
            policy=lambda: policy,
        )
        self.front = ExplicitProxy(engine, lambda: policy)

    async def dial(self, _: str, __: int) -> Streams:
        """Connect to the one server."""
        return self._dialled

    async def serve(self, *pieces: bytes, answer: bytes = b"") -> tuple[bytes, bytes]:
        """Serve a client that sends this; return what the server got, and what the client got."""
        (reader, writer), theirs = await pair_of_sockets()
        self._dialled, (from_proxy, to_proxy) = await pair_of_sockets()
        serving = asyncio.create_task(self.front.serve(*theirs))
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.01)
        forwarded = await from_proxy.readuntil(pieces[-1])
        to_proxy.write(answer)
        to_proxy.write_eof()
        got = await reader.readuntil(answer) if answer else b""
        for end in (writer, to_proxy):
            end.close()
        await serving
        return forwarded, got


async def test_a_connect_and_the_request_in_its_tunnel_are_decided_once_each(
    policy: Callable[[str], Policy],
) -> None:
    front = Front(policy(RULES))
    with counted() as calls:
        forwarded, got = await front.serve(b"CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n", GET, answer=OK)
    assert (forwarded, got.endswith(OK)) == (GET, True)
    assert calls == {"decide_connect": 1, "decide": 1}


async def test_a_passthrough_calls_decide_connect_once(policy: Callable[[str], Policy]) -> None:
    front, begun = Front(policy(RULES)), hello(b"b.test")
    with counted() as calls:
        forwarded, _ = await front.serve(b"CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", begun)
    assert forwarded == begun
    assert calls == {"decide_connect": 1}
