"""An error at any await of a session leaves no task, connection, slot, or exchange without a record."""

from __future__ import annotations

import asyncio
import logging
import re
import types
from typing import TYPE_CHECKING, Any

import pytest

from both_paths import OK, POLICY, QUERY, SWITCH, TUNNEL, Answer, BothPaths, Connection, Secured
from independent_parsers import read_by_h11
from proxy_stand import PATHS
from table_tests import each
from websocket_client import frame, handshake

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

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
    "two in a row": ((TUNNEL, GET + GET), (OK, CHUNKS)),
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
# The statuses that the client gets, if not one 200.
STATUS = {
    "two in a row": b"200 200",
    "a denial": b"403",
    "a WebSocket": b"101",
    UNANSWERED: b"",
    "a malformed head": b"200 400",
    "a malformed body after a denial": b"403",
}
# To mitmproxy, a timeout is an error of the connection like any other.
FAULTS = {
    "lane": (asyncio.CancelledError, ConnectionResetError, TimeoutError),
    "mitmproxy": (asyncio.CancelledError, ConnectionResetError),
}


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


async def left_behind(connection: Connection, packets: tuple[bytes, ...], faults: Faults) -> list[str]:
    """Serve a connection with an error. Return what was left behind, in words."""
    connection.may_fail = True
    asyncio.get_running_loop().set_task_factory(faults.make_task)
    seen = await connection.serve(packets, halves=False)
    asyncio.get_running_loop().set_task_factory(None)
    for _ in range(20):
        await asyncio.sleep(0)
    told = sum(record["event"] == "request" and record["decision"] == "allow" for record in seen.records)
    asked = sum(len(read_by_h11(raw)) for raw in seen.by_connection)
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
def both(tmp_path_factory: pytest.TempPathFactory) -> BothPaths:
    return BothPaths(tmp_path_factory.mktemp("suspensions"), RULES)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def _log_less(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # logging each error with its traceback would take longer than the rest


def connect(path: str, name: str, both: BothPaths, secured: Secured) -> Connection:
    """Return a connection for a scene."""
    connection = Connection(both.policies[path], SCENES[name][1], secured if name == SECURE else None)
    connection.is_watched = name != UNANSWERED
    if name == SLOW:
        connection.most_read = 65_536
    return connection


@each("path, name", [(path, name) for path in PATHS for name in SCENES])
def test_each_scene_is_what_it_says(path: str, name: str, both: BothPaths, secured: Secured) -> None:
    connection = connect(path, name, both, secured)
    seen = asyncio.run(connection.serve(SCENES[name][0], halves=False))
    status = re.findall(rb"HTTP/1.1 ([1-5]\d\d) (?!Connection)", seen.returned)
    assert b" ".join(status) == STATUS.get(name, b"200")
    assert connection.was_paused == (name == SLOW)
    if name == UNANSWERED:
        (reason,) = (record["reason"] for record in seen.records if record["event"] == "request")
        assert reason.endswith("the client left before a person answered")
    assert ("once, by a person" in str(seen.records)) == (name == ASKED)


@each("path, name, fault", [(path, name, fault) for path in PATHS for name in SCENES for fault in FAULTS[path]])
def test_an_error_at_any_await_leaves_nothing_behind(
    path: str, name: str, fault: type[BaseException], both: BothPaths, secured: Secured
) -> None:
    found: dict[int, list[str]] = {}
    at, was_raised = 0, True
    while was_raised:
        faults = Faults(at, fault)
        connection = connect(path, name, both, secured)
        left = asyncio.run(left_behind(connection, SCENES[name][0], faults))
        was_raised = faults.was_raised
        found |= {at: left} if left else {}
        at += 1
    assert at > 5
    assert not found
