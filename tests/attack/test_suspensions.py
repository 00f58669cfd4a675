"""An error at any await of a session leaves no task, connection, slot, or exchange without a record."""

import asyncio
import logging
import re
import types
from collections.abc import Coroutine, Generator
from typing import Any

import pytest
from h2.settings import SettingCodes

from agent_sandbox.policy import Policy
from agent_sandbox.policyfile import load_policy
from agent_sandbox.proxy.mitm.loading import load_session
from http2client import Http2Streams, fields
from independent_parsers import read_by_h11
from served_connection import OK, POLICY, QUERY, SWITCH, TUNNEL, Answer, Connection, Packet, Secured
from table_tests import each
from websocket_client import frame, handshake

GET = b"GET /a HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 10\r\n\r\n"
HELD = b"POST /graphql HTTP/1.1\r\nHost: allowed.test\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n"
CHUNKS = Answer(
    pieces=(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok", b"\r\n2\r\nok\r\n", b"0\r\n\r\n")
)
CHUNKED = b"POST /denied HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n"
LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: 1500000\r\n\r\n" + bytes(1_500_000)
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\nok"
RULES = POLICY.replace("    rules:\n", "    rules:\n      - {path: {exact: /asked}, ask: true}\n", 1)
SLOW, SECURE, ASKED = "a large response to a slow client", "TLS on both sides", "a question to a person"
UNANSWERED = "a client that leaves before the answer"
# What the client sends, packet by packet, and what the server answers.
SCENES: dict[str, tuple[tuple[bytes, ...], tuple[Answer, ...]]] = {
    "a request": ((TUNNEL, GET), ()),
    "two in a row": ((TUNNEL, GET + GET.replace(b"/a", b"/a/2")), (OK, CHUNKS)),
    "a body in parts": ((TUNNEL, POST + b"hello", b"world"), (CHUNKS,)),
    "an early answer": ((TUNNEL, POST + b"hello", b"world"), (Answer(pieces=CHUNKS.pieces, early=True),)),
    "a body that is decided on": ((TUNNEL, HELD + QUERY[:5], QUERY[5:]), ()),
    "a denial": ((TUNNEL, POST.replace(b"/a", b"/denied") + b"hello", b"world"), ()),
    "a WebSocket": (
        (TUNNEL, handshake("/a/ws"), frame(b"ping", masked=True), b"\x88\x80\0\0\0\0"),
        (Answer(pieces=(SWITCH, frame(b"pong", masked=False), b"\x88\x00")),),
    ),
    "a head in parts": ((TUNNEL[:30], TUNNEL[30:] + GET[:20], GET[20:]), ()),
    "a malformed head": ((TUNNEL, GET + b"GET  /a HTTP/1.1\r\n\r\n"), ()),
    "a malformed body after a denial": ((TUNNEL, CHUNKED, b"x\r\n"), ()),
    SLOW: ((TUNNEL, GET), (Answer(pieces=(LARGE,)),)),
    "a response that ends with its connection": ((TUNNEL, GET), (Answer(pieces=(UNTIL_CLOSED,), closes=True),)),
    ASKED: ((TUNNEL, GET.replace(b"/a", b"/asked")), ()),
    UNANSWERED: ((TUNNEL, GET.replace(b"/a", b"/asked")), ()),
    SECURE: ((TUNNEL.replace(b":80", b":443"), GET), (CHUNKS,)),
    "no tunnel": ((GET.replace(b" /", b" http://allowed.test/"),), ()),
}
SECURE_TUNNEL = TUNNEL.replace(b":80", b":443")
JSON = ("content-type", "application/json")


def over_http2(
    path: str = "/a", *more: tuple[str, str], method: str = "GET", body: bytes | None = None, ends: bool = True
) -> Packet:
    """Return a request over HTTP/2, or its beginning."""
    return lambda streams: streams.begin([*fields(path, method=method), *more], body, ends=ends)


def more(data: bytes) -> Packet:
    """Return the rest of the body of the first request."""
    return lambda streams: streams.h2.send_data(1, data, end_stream=True)


def both(*packets: Packet) -> Packet:
    """Return several requests in one packet."""

    def prepare(streams: Http2Streams) -> None:
        for packet in packets:
            assert not isinstance(packet, bytes)
            packet(streams)

    return prepare


def open_windows(streams: Http2Streams) -> None:
    """Let the proxy send as much as it can."""
    streams.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**24})
    streams.h2.increment_flow_control_window(2**24)


# The same for a client that speaks HTTP/2.
HTTP2_SCENES: dict[str, tuple[tuple[Packet, ...], tuple[Answer, ...]]] = {
    "a request": ((over_http2(),), ()),
    "two in a row": ((over_http2(), over_http2("/a/2")), (OK, CHUNKS)),
    "two at once": ((both(over_http2(), over_http2("/a/2")),), (OK, CHUNKS)),
    "a body in parts": ((over_http2(method="POST", body=b"hello", ends=False), more(b"world")), (CHUNKS,)),
    "an early answer": (
        (over_http2(method="POST", body=b"hello", ends=False), more(b"world")),
        (Answer(pieces=CHUNKS.pieces, early=True),),
    ),
    "a body that is decided on": (
        (over_http2("/graphql", JSON, method="POST", body=QUERY[:5], ends=False), more(QUERY[5:])),
        (),
    ),
    "a denial": ((over_http2("/denied", method="POST", body=b"hello", ends=False), more(b"world")), ()),
    "a cancelled request": (
        (over_http2(method="POST", body=b"hello", ends=False), lambda streams: streams.h2.reset_stream(1)),
        (),
    ),
    "a malformed request": ((over_http2("/a", ("connection", "close")),), ()),
    SLOW: ((open_windows, over_http2()), (Answer(pieces=(LARGE,)),)),
    "a response that ends with its connection": ((over_http2(),), (Answer(pieces=(UNTIL_CLOSED,), closes=True),)),
    ASKED: ((over_http2("/asked"),), ()),
    UNANSWERED: ((over_http2("/asked"),), ()),
}
HTTP2_STATUS = {
    "two in a row": ["200", "200"],
    "two at once": ["200", "200"],
    "a denial": ["403"],
    "a cancelled request": [],
    "a malformed request": [],
    UNANSWERED: [],
}
# The statuses that the client gets, if not one 200.
STATUS = {
    "two in a row": b"200 200",
    "a denial": b"403",
    "a WebSocket": b"101",
    UNANSWERED: b"",
    "a malformed head": b"200 400",
    "a malformed body after a denial": b"403",
}
FAULTS = (asyncio.CancelledError, ConnectionResetError, TimeoutError)
# To mitmproxy, a timeout is an error of the connection like any other.
HTTP2_FAULTS = (asyncio.CancelledError, ConnectionResetError)


class Faults:
    """A task factory that raises an error at the `at`-th await, counted over all tasks."""

    def __init__(self, at: int, fault: type[BaseException]) -> None:
        self._left = at
        self._fault = fault
        self.was_raised = False

    def make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        **more: Any,  # noqa: ANN401 - asyncio's
    ) -> asyncio.Task[Any]:
        """Make a task. This is the task factory."""
        task = asyncio.Task(self._await(coroutine), loop=loop, **more)
        task.add_done_callback(lambda _: coroutine.close())  # a task can be cancelled before its first step
        return task

    async def _await(self, coroutine: Coroutine[Any, Any, Any]) -> object:
        return await self._run(coroutine)

    @types.coroutine
    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        act, error = coroutine.send, None
        while True:
            try:
                waits_for = act(None) if error is None else coroutine.throw(error)
            except StopIteration as end:
                return end.value
            error, self._left = None, self._left - 1
            if self._left == -1:
                self.was_raised, error = True, self._fault()
                if waits_for is not None:
                    waits_for._asyncio_future_blocking = False
                continue
            try:
                yield waits_for
            except BaseException as raised:  # noqa: BLE001 - raised in the coroutine instead
                error = raised


async def left_behind(connection: Connection, packets: tuple[Packet, ...], faults: Faults) -> list[str]:
    """Serve a connection with an error. Return what was left behind, in words."""
    connection.may_fail = True
    asyncio.get_running_loop().set_task_factory(faults.make_task)
    seen = await connection.serve(packets)
    asyncio.get_running_loop().set_task_factory(None)
    for _ in range(20):
        await asyncio.sleep(0)
    told = sum(record["event"] == "request" and record["decision"] == "allow" for record in seen.records)
    # One that a server may not have read is sent once more.
    asked = len({one.target for raw in seen.by_connection for one in read_by_h11(raw)})
    found = {
        "a task": len(asyncio.all_tasks()) > 1,
        "a session": bool(connection.engine.sessions),
        "a server connection": not all(server.is_lost for server in connection.servers),
        "a request without its record": asked > told,
        "a question": bool(connection.people.ids()),
        "a body": any(one.held for _, one in connection.enforcer._holding._held),
    }
    return [what for what, is_left in found.items() if is_left]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    asyncio.run(load_session())  # in a thread, which the first connection would wait for
    file = tmp_path_factory.mktemp("suspensions") / "policy.yaml"
    file.write_text(RULES)
    return load_policy(file)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def _log_less(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # logging each error with its traceback would take longer than the rest


def connect(name: str, policy: Policy, secured: Secured, *, http2: bool = False) -> Connection:
    """Return a connection for a scene."""
    answers = (HTTP2_SCENES if http2 else SCENES)[name][1]
    connection = Connection(policy, answers, secured if http2 or name == SECURE else None, http2=http2)
    connection.is_watched = name != UNANSWERED
    if name == SLOW:
        connection.most_read = 65_536
    return connection


def assert_asked(name: str, records: list[dict[str, Any]]) -> None:
    """Check that a person was asked only in the scenes of that name."""
    if name == UNANSWERED:
        (reason,) = (record["reason"] for record in records if record["event"] == "request")
        assert reason.endswith("the client left before a person answered")
    assert ("once, by a person" in str(records)) == (name == ASKED)


@each("name", SCENES)
def test_each_scene_is_what_it_says(name: str, policy: Policy, secured: Secured) -> None:
    connection = connect(name, policy, secured)
    seen = asyncio.run(connection.serve(SCENES[name][0]))
    status = re.findall(rb"HTTP/1.1 ([1-5]\d\d) (?!Connection)", seen.returned)
    assert b" ".join(status) == STATUS.get(name, b"200")
    assert connection.was_paused == (name == SLOW)
    assert_asked(name, seen.records)


@each("name", HTTP2_SCENES)
def test_each_http2_scene_is_what_it_says(name: str, policy: Policy, secured: Secured) -> None:
    connection = connect(name, policy, secured, http2=True)
    seen = asyncio.run(connection.serve((SECURE_TUNNEL, *HTTP2_SCENES[name][0])))
    assert connection.streams is not None
    assert [status for of_one in connection.streams.happened.values() for status in of_one] == HTTP2_STATUS.get(
        name, ["200"]
    )
    assert connection.was_paused == (name == SLOW)
    assert_asked(name, seen.records)


def assert_nothing_is_left(
    name: str, fault: type[BaseException], policy: Policy, secured: Secured, *, http2: bool = False
) -> None:
    packets = (SECURE_TUNNEL, *HTTP2_SCENES[name][0]) if http2 else SCENES[name][0]
    found: dict[int, list[str]] = {}
    at, was_raised = 0, True
    while was_raised:
        faults = Faults(at, fault)
        left = asyncio.run(left_behind(connect(name, policy, secured, http2=http2), packets, faults))
        was_raised = faults.was_raised
        found |= {at: left} if left else {}
        at += 1
    assert at > 5
    assert not found


@each("name, fault", [(name, fault) for name in SCENES for fault in FAULTS])
def test_an_error_at_any_await_leaves_nothing_behind(
    name: str, fault: type[BaseException], policy: Policy, secured: Secured
) -> None:
    assert_nothing_is_left(name, fault, policy, secured)


@each("name, fault", [(name, fault) for name in HTTP2_SCENES for fault in HTTP2_FAULTS])
def test_an_error_at_any_await_over_http2_leaves_nothing_behind(
    name: str, fault: type[BaseException], policy: Policy, secured: Secured
) -> None:
    assert_nothing_is_left(name, fault, policy, secured, http2=True)
