"""Server connections that several clients use in turn, over HTTP/1.1 or HTTP/2."""

import asyncio
import contextlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast, override

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policyfile import load_policy
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.connection import upstream
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.lane import serving
from agent_sandbox.proxy.mitm import shared_server
from agent_sandbox.proxy.tls.contexts import HTTP1
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.message import value_of
from http2_stage import GONE, Http2Stage, chosen
from lane_stage import GET, OK, LaneStage, Pair
from layer_harness import LetThrough

type Stage = Callable[..., Http2Stage]
type Request = tuple[str, str, int]
type Talking = tuple[Callable[[Http2Stage, int, list[Request]], Awaitable[None]], list[Request]]

TAGGED = re.compile(rb"[A-Za-z]+ /(\S+) ")
SIZE = re.compile(rb"(?i)\r\ncontent-length: (\d+)")
VERSION = re.compile(rb"(?i)\r\nx-policy: (\d+)")
STRAY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Make a stage under a policy that allows a.test."""
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\ndomains: [a.test]\n")
    return partial(Http2Stage, load_policy(path))


async def asked(on: LaneStage, client: Pair, server: Pair, request: bytes = GET, answer: bytes = OK) -> bytes:
    """Send a request, have this server answer, and return what the server got."""
    client[1].write(request)
    got = await on.get(b"\r\n\r\n", reader=server[0])
    server[1].write(answer)
    assert await on.get(b"ok", reader=client[0]) == answer
    return got


async def test_another_client_reuses_an_idle_server_connection(stage: Stage) -> None:
    async with stage() as on:
        await on.answered(GET, OK)
        session, other = await on.client()
        await asked(on, other, on.servers[0])
        await asyncio.sleep(0.01)
        assert (session._serving.upstream, len(on.pool)) == (None, 1)
        assert on.asked == [("a.test", 80)]


async def test_an_idle_server_connection_outlives_the_client_that_used_it(stage: Stage) -> None:
    async with stage() as on:
        await on.answered(GET, OK)
        on.writer.close()
        await on.over()
        await asked(on, (await on.client())[1], on.servers[0])


async def test_a_client_that_disconnects_within_a_response_closes_the_server_connection(stage: Stage) -> None:
    async with stage() as on:
        await on.answered(GET, OK[:-1], until=b"o")
        on.writer.close()
        await on.over()
        assert await on.get(reader=on.servers[0][0]) in (b"", b"reset")
        assert len(on.pool) == 0


NTLM = GET[:-2] + b"Authorization: NTLM TlRM\r\n\r\n"


async def test_a_request_with_ntlm_credentials_gets_its_own_server_connection(stage: Stage) -> None:
    async with stage() as on:
        await on.answered(GET, OK)
        _, other = await on.client()
        other[1].write(NTLM)
        own = await on.server()
        assert await on.get(b"\r\n\r\n", reader=own[0]) == NTLM
        own[1].write(OK)
        await on.get(b"ok", reader=other[0])
        await asked(on, other, own)  # no credentials: the server has authenticated the connection
        await asked(on, (on.reader, on.writer), on.servers[0])
        other[1].close()
        assert await on.get(reader=own[0]) in (b"", b"reset")


class GrantsHeads(LetThrough):
    """A policy that allows each HEAD as a grant for this request alone."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        super().requestheaders(exchange, tunnel)
        if exchange.method == "HEAD":
            exchange.waiting = Waiting(leave=lambda: None, over=True, grant=cast("Rule", object()))


async def test_a_granted_request_is_not_sent_on_a_shared_connection(stage: Stage) -> None:
    async with stage(GrantsHeads()) as on:
        await on.answered(GET, OK)
        on.send(GET.replace(b"GET", b"HEAD"))
        assert await on.server() is not None
        assert len(on.asked) == 2


async def test_an_ntlm_challenge_keeps_the_server_connection_with_its_client(stage: Stage) -> None:
    challenge = b"HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM\r\nContent-Length: 2\r\n\r\nok"
    async with stage() as on:
        await on.answered(GET, challenge)
        await asked(on, (on.reader, on.writer), on.servers[0], NTLM)
        other = (await on.client())[1]
        other[1].write(GET)
        assert await on.server() is not None
        assert len(on.asked) == 2


@pytest.mark.parametrize(
    "answer", [OK + STRAY, OK + b"\n", OK.replace(b"\r\n\r\n", b"\r\nKeep-Alive: timeout=1\r\n\r\n")]
)
async def test_closes_a_server_connection_with_stray_data_or_a_keep_alive_timeout(stage: Stage, answer: bytes) -> None:
    async with stage() as on:
        await on.answered(GET, answer)
        assert await on.get(reader=on.servers[0][0]) in (b"", b"reset")


@pytest.mark.parametrize("late", [b"", b"x", STRAY])
async def test_closes_an_idle_connection_when_the_server_sends_or_closes(stage: Stage, late: bytes) -> None:
    async with stage() as on:
        await on.answered(GET, OK)
        await asyncio.sleep(0.01)
        on.servers[0][1].write(late)
        if not late:
            on.servers[0][1].write_eof()
        assert await on.get(reader=on.servers[0][0]) in (b"", b"reset")
        assert len(on.pool) == 0


async def test_does_not_pool_a_connection_after_a_response_before_the_end_of_its_request(stage: Stage) -> None:
    async with stage() as on:
        on.send(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhel")
        reader, writer = await on.server()
        await on.get(b"hel", reader=reader)
        writer.write(OK)
        await on.get(b"\r\n\r\n")
        on.send(b"lo")
        await on.get(b"ok")
        await asyncio.sleep(0.01)
        assert len(on.pool) == 0


async def test_a_retry_is_made_on_a_new_connection(stage: Stage) -> None:
    async with stage() as on:
        first, second = (on.reader, on.writer), (await on.client())[1]
        first[1].write(GET)
        one = await on.server()
        second[1].write(GET)
        two = await on.server()
        for client, server in ((first, one), (second, two)):
            await on.get(b"\r\n\r\n", reader=server[0])
            server[1].write(OK)
            await on.get(b"ok", reader=client[0])
        first[1].write(GET)
        for server in (one, two):
            reading = asyncio.create_task(server[0].read(1))
            reading.add_done_callback(lambda done, server=server: done.result() and server[1].transport.abort())  # type: ignore[misc]
        three = await on.server()
        assert await on.get(b"\r\n\r\n", reader=three[0]) == GET
        three[1].write(OK)
        assert await on.get(b"ok") == OK
        assert len(on.asked) == 3


async def test_a_request_of_a_client_that_has_left_is_not_retried() -> None:
    async with Http2Stage(Policy.deny_all("x"), LetThrough()) as on:
        with chosen(HTTP1):
            await on.answered(GET, OK)
            client = await on.http2()
            client.send("/x")
            assert await on.get(b"\r\n\r\n", reader=on.servers[0][0])
            client.writer.close()
            assert await on.get(reader=on.servers[0][0]) in (b"", b"reset")
            await asyncio.sleep(0.02)
        assert len(on.asked) == 1


@pytest.mark.parametrize("fault", [ValueError, asyncio.CancelledError])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", ["to_pool", "Upstream.rest", "Upstream.drop"])
async def test_an_error_while_pooling_a_server_connection_closes_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, where: str, when: str, fault: type[BaseException]
) -> None:
    owner, name = (upstream.Upstream, where.partition(".")[2]) if "." in where else (serving, where)
    original = getattr(owner, name)

    def fall_over(*given: object) -> None:
        if when == "after":
            original(*given)
        raise fault

    monkeypatch.setattr(owner, name, fall_over)
    async with stage() as on:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        await on.answered(GET, OK)
        if where == "Upstream.drop":
            await asyncio.sleep(0.01)
            on.servers[0][1].write(STRAY)
        assert await on.get(reader=on.servers[0][0]) in (b"", b"reset")
        assert len(on.pool) == 0
        _, other = await on.client()
        other[1].write(GET)
        assert await on.server() is not None
        monkeypatch.undo()


@pytest.mark.parametrize("fault", [ValueError, asyncio.CancelledError])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "where",
    [
        *("Sharing.allows", "Sharing.open", "Sharing.over", "Sharing.close"),
        *(f"SharedStream.{name}" for name in ("read", "write", "drain", "release", "close")),
    ],
)
async def test_an_error_while_http2_clients_share_a_connection_leaves_the_pool_usable(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, where: str, when: str, fault: type[BaseException]
) -> None:
    owner, name = getattr(shared_server, where.partition(".")[0]), where.partition(".")[2]
    original, faults = getattr(owner, name), [fault]

    async def fall_over_later(*given: object, **named: object) -> object:
        result = await original(*given, **named) if when == "after" else None
        if faults:
            raise faults.pop()
        return result if when == "after" else await original(*given, **named)

    def fall_over(*given: object) -> object:
        result = original(*given) if when == "after" else None
        if faults:
            raise faults.pop()
        return result if when == "after" else original(*given)

    monkeypatch.setattr(owner, name, fall_over_later if inspect.iscoroutinefunction(original) else fall_over)
    with chosen(HTTP1):
        async with stage() as on:
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            origin = Origin(on, lambda: "")
            accepting = asyncio.create_task(origin.accept())
            for turn in range(3):
                client = await on.http2()
                status, body = await client.answer(client.send(f"/c0-{turn}"))
                assert (status, body) == ("200", f"c0-{turn}".encode()) or (status in {"502", GONE} and not turn)
                client.writer.close()
                await asyncio.sleep(0.02)
            assert not faults
            assert len(on.pool) == 1
            assert len(origin.open) == 1
            accepting.cancel()
            for task in origin.tasks:
                task.cancel()
            await asyncio.gather(*origin.tasks, return_exceptions=True)


class Secretive(LetThrough):
    """A policy that injects the secret that a request names, and tells the server its version."""

    def __init__(self) -> None:
        self.version = 0

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Allow the request, with that secret."""
        super().requestheaders(exchange, tunnel)
        fields = (*exchange.head.fields, (b"X-Policy", b"%d" % self.version))
        exchange.forwarded = replace(exchange.head, fields=fields)
        if name := value_of(exchange.head.fields, b"x-secret"):
            exchange.secrets = (SecretUse(secret=name, kind="bearer", source="file", age=1.0),)


@dataclass
class Origin:
    """Servers that answer each request with its tag, or fail as `next_fault` says."""

    on: LaneStage
    next_fault: Callable[[], str]
    policy: Callable[[], int] = lambda: 0
    secrets: list[set[bytes]] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    open: set[object] = field(default_factory=set)

    async def accept(self) -> None:
        """Serve every connection."""
        while True:
            server = await self.on.dialled.get()
            self.tasks.append(asyncio.create_task(self._serve(*server, self.policy())))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, policy: int) -> None:
        clients = set()
        self.secrets.append(seen := set())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), self._while_open(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                seen |= {*re.findall(rb"(?i)x-secret: (\w+)", head)} or {b"none"}
                tag, fault = TAGGED.match(head), self.next_fault()
                assert tag
                clients.add(tag[1].partition(b"-")[0])
                # After a policy change, one client may go on with its connection. A shared connection carries no
                # request that was decided by a newer policy than the one it was opened under.
                assert len(clients) == 1 or all(int(one) <= policy for one in VERSION.findall(head))
                if fault == "early":
                    await self._answer(reader, writer, tag[1], "")
                if size := SIZE.search(head):
                    assert await reader.readexactly(int(size[1])) == tag[1]
                if fault != "early":
                    await self._answer(reader, writer, tag[1], fault)

    @contextlib.contextmanager
    def _while_open(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self.open.add(writer)
        try:
            yield
        except AssertionError:
            writer.transport.abort()  # or the client would wait for a response until the test times out
            raise
        finally:
            self.open.remove(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tag: bytes, fault: str) -> None:
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(tag), tag)
        match fault.partition(" "):
            case "reset", _, at:
                writer.write(whole[: int(at)])
                await asyncio.sleep(0)
                writer.transport.abort()
            case "close", _, at:
                writer.write(whole[: int(at)])
                writer.close()
            case "chunks", *_:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(tag), tag))
                await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
            case "extra", *_:
                writer.write(whole + STRAY)
            case "body", _, status:
                writer.write(b"HTTP/1.1 %s X\r\nContent-Length: %d\r\n\r\n" % (status.encode(), len(STRAY)))
                await self._say_unless_asked(reader, writer, STRAY, 0)
            case "late", _, steps:
                writer.write(whole)
                await self._say_unless_asked(reader, writer, STRAY, int(steps))
            case "late-end", _, steps:
                writer.write(whole)
                await self._say_unless_asked(reader, writer, b"", int(steps))
            case _:
                writer.write(whole[: len(whole) // 2])
                await asyncio.sleep(0)
                writer.write(whole[len(whole) // 2 :])

    @staticmethod
    async def _say_unless_asked(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes, steps: int
    ) -> None:
        """Send data on an idle connection. If a request is on its way, it would look like the response."""
        await pause(steps)
        raw = writer.get_extra_info("socket")
        with contextlib.suppress(BlockingIOError):
            if reader._buffer or raw._sock.recv(1, 2):  # type: ignore[attr-defined] # MSG_PEEK
                return
        writer.write(data)
        if not data:
            writer.close()


async def pause(steps: int) -> None:
    """Let everything else take so many steps."""
    for _ in range(steps):
        await asyncio.sleep(0)


async def talk_over_http2(on: Http2Stage, client: int, requests: list[Request]) -> None:
    """Send requests in turn, each after a pause, as its body is, and check each response by its tag."""
    talking = await on.http2()
    for number, (method, secret, steps) in enumerate(requests):
        await pause(steps)
        tag = f"c{client}-{number}"
        fields = [("x-secret", secret)] if secret else []
        if method == "POST":
            size = ("content-length", str(len(tag)))
            stream = talking.send(f"/{tag}", *fields, size, method=method, ends=False)
            await pause(steps)
            talking.h2.send_data(stream, tag.encode(), end_stream=True)
            talking.flush()
        else:
            stream = talking.send(f"/{tag}", *fields, method="GET" if method == "leave" else method)
        if method == "leave":
            talking.writer.close()
            return
        status, body = await talking.answer(stream)
        if status == GONE:
            return
        if status == "200":
            assert body == (b"" if method == "HEAD" else tag.encode())
        else:
            assert status == "502" or (status in {"204", "304"} and not body)


async def talk(on: LaneStage, client: int, requests: list[Request]) -> None:
    """Send requests in turn, each after a pause, as its body is, and check each response by its tag."""
    _, (reader, writer) = await on.client()
    for number, (method, secret, steps) in enumerate(requests):
        await pause(steps)
        tag = b"c%d-%d" % (client, number)
        fields = b"X-Secret: %s\r\n" % secret.encode() if secret else b""
        if method == "POST":
            fields += b"Content-Length: %d\r\n" % len(tag)
        writer.write(b"%s /%s HTTP/1.1\r\nHost: a.test\r\n%s\r\n" % (method.encode(), tag, fields))
        if method == "POST":
            await pause(steps)
            writer.write(tag)
        if method == "leave":
            writer.close()
            return
        head = b""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            if not head.startswith((b"HTTP/1.1 204", b"HTTP/1.1 304")):
                return
            continue
        assert b"stray" not in head
        if method == "HEAD":
            continue
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            if b"chunked" in head:
                got = await reader.readuntil(b"0\r\n\r\n")
                assert got == b"%x\r\n%s\r\n0\r\n\r\n" % (len(tag), tag)
            else:
                got = await reader.readexactly(len(tag))
                assert got == tag


FAULTS = st.one_of(
    *map(st.just, ("", "", "chunks", "early", "extra", "body 204", "body 304")),
    st.integers(0, 45).map(lambda at: f"reset {at}"),
    st.integers(0, 45).map(lambda at: f"close {at}"),
    st.integers(0, 8).map(lambda steps: f"late {steps}"),
    st.integers(0, 8).map(lambda steps: f"late-end {steps}"),
)
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["GET", "GET", "POST", "HEAD", "leave"]), st.sampled_from(["", "one", "two"]), st.integers(0, 8)
    ),
    max_size=6,
)
TALKS = st.lists(st.tuples(st.sampled_from([talk, talk_over_http2]), REQUESTS), min_size=1, max_size=4)


async def converse(talks: list[Talking], faults: list[str], reloads: list[tuple[int, bool]]) -> None:
    """Run several clients at once, with failing servers and a policy that is sometimes replaced.

    The pool must not rely on being cleared then: not all `reloads` do it.
    """
    left, policy = iter(faults), Secretive()
    async with Http2Stage(Policy.deny_all("x"), policy) as on:
        origin = Origin(on, lambda: next(left, ""), lambda: policy.version)
        accepting = asyncio.create_task(origin.accept())

        async def reload() -> None:
            for steps, clears in reloads:
                await pause(steps)
                on.policy = Policy.deny_all("x")
                policy.version += 1
                if clears:
                    on.pool.clear()

        async with asyncio.timeout(10):
            await asyncio.gather(reload(), *(way(on, number, said) for number, (way, said) in enumerate(talks)))
        accepting.cancel()
        for task in origin.tasks:
            task.cancel()
        ended = await asyncio.gather(*origin.tasks, return_exceptions=True)
        assert not [one for one in ended if isinstance(one, Exception)]
        assert all(len(seen) <= 1 for seen in origin.secrets)
        await pause(3)
        assert all(idle.connection.is_quiet for idle in on.pool._all())
        assert [line.reason for line in on.lines] == []


@given(TALKS, st.lists(FAULTS, max_size=12), st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=3))
# The server sends at each step up to the next request, one of which is the last before the connection is taken.
@example([(talk, [("GET", "", 0)] * 13)], [f"late {steps}" for steps in range(12)], [])
@example([(talk_over_http2, [("GET", "", 0)] * 13)], [f"late {steps}" for steps in range(12)], [])
# The policy is replaced while a connection is idle; then another client asks.
@example([(talk, [("GET", "", 0)]), (talk, [("GET", "", 80)])], [], [(50, False)])
@example([(talk, [("GET", "", 0)]), (talk_over_http2, [("GET", "", 80)])], [], [(50, False)])
# The server has answered long before the client sends the body.
@example([(talk, [("POST", "", 30), ("GET", "", 0)])], ["early"], [])
@example([(talk_over_http2, [("POST", "", 30), ("GET", "", 0)])], ["early"], [])
def test_no_byte_of_an_exchange_is_delivered_to_another(
    talks: list[Talking], faults: list[str], reloads: list[tuple[int, bool]]
) -> None:
    with chosen(HTTP1):
        asyncio.run(converse(talks, faults, reloads))
