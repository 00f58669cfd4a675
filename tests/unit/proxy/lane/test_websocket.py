import asyncio
import time

import pytest

from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.exchange.exchange import OverBudget, open_exchange
from agent_sandbox.proxy.lane.websocket import relay_frames
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.fair_scheduler import FairScheduler, Work
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.wire.message import RequestHead
from lane_stage import PLAIN, pair_of_sockets, until
from websocket_client import frame

HEAD = RequestHead(b"GET", b"/x", b"HTTP/1.1", (), b"", "a.test", 80, b"http")
CLOSE, CLOSE_MASKED = b"\x88\x00", b"\x88\x80\x00\x00\x00\x00"


class Talk:
    """A relay between two sockets."""

    async def start(
        self,
        *,
        closing_seconds: float = 2.0,
        echoes: Echoes = Echoes(),  # noqa: B008 - immutable
        turns: FairScheduler | None = None,
    ) -> None:
        """Start it."""
        self.exchange = open_exchange(HEAD, PLAIN, started=0.0)
        self.exchange.echoes = echoes
        self.writers, streams = [], []
        self.ends = []
        for _ in range(2):
            (reader, writer), end = await pair_of_sockets()
            stream = ByteStream(writer, on_data=lambda: None)
            stream.take_over(reader)
            streams.append(stream)
            self.ends.append(end)
            self.writers += [writer, end[1]]
        client, server = streams
        limits = Limits(websocket_closing_seconds=closing_seconds)
        turns = turns or FairScheduler(time.monotonic)
        self.task = asyncio.create_task(relay_frames(client, server, self.exchange, limits, turns))

    async def over(self) -> tuple[int, int, str]:
        """Wait for its end; return what passed, and why it ended."""
        async with asyncio.timeout(5):
            await self.task
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.sleep(0)
        return self.exchange.sent.count, self.exchange.received.count, self.exchange.error


async def test_frames_wait_for_their_turn() -> None:
    talk, turns = Talk(), FairScheduler(time.monotonic)
    await talk.start(turns=turns)
    (client_reader, client), (_, server) = talk.ends
    async with turns.turn(Work()):
        server.write(frame(b"a", masked=False))
        client.write(frame(b"c", masked=True))
        await until(lambda: len(turns._waiting) == 2)
    assert await client_reader.readexactly(3) == frame(b"a", masked=False)
    talk.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talk.task
    assert (talk.exchange.sent.count, talk.exchange.received.count) == (1, 1)
    for writer in talk.writers:
        writer.transport.abort()


async def test_a_side_that_ends_while_it_waits_for_its_turn_leaves_the_turn_to_others() -> None:
    talk, turns = Talk(), FairScheduler(time.monotonic)
    await talk.start(turns=turns)
    async with turns.turn(Work()):
        talk.ends[1][1].write(frame(b"a", masked=False))
        await until(lambda: bool(turns._waiting))
        talk.ends[0][1].close()
        assert await talk.over() == (0, 0, "")
    async with asyncio.timeout(30), turns.turn(Work()):
        pass


async def test_passes_frames_both_ways_until_both_sides_have_closed() -> None:
    talk = Talk()
    await talk.start()
    (client_reader, client), (server_reader, server) = talk.ends
    client.write(frame(b"hello", masked=True))
    assert await server_reader.readexactly(11) == frame(b"hello", masked=True)
    server.write(frame(b"yes", masked=False) + CLOSE)
    assert await client_reader.readexactly(7) == frame(b"yes", masked=False) + CLOSE
    client.write(CLOSE_MASKED)
    assert await talk.over() == (5, 3, "")


async def test_redacts_only_what_the_server_sends() -> None:
    talk = Talk()
    await talk.start(echoes=Echoes([b"secret"]))
    talk.ends[0][1].write(frame(b"secret", masked=True))
    assert await talk.ends[1][0].readexactly(12) == frame(b"secret", masked=True)
    talk.ends[1][1].write(frame(b"a secret", masked=False) + CLOSE)
    assert await talk.ends[0][0].readexactly(12) == frame(b"a ******", masked=False) + CLOSE
    talk.ends[0][1].close()
    assert await talk.over() == (6, 8, "")


@pytest.mark.parametrize("side", [0, 1])
async def test_ends_when_a_side_leaves(side: int) -> None:
    talk = Talk()
    await talk.start()
    talk.ends[side][1].close()
    assert await talk.over() == (0, 0, "")


async def test_ends_some_time_after_an_unanswered_close() -> None:
    talk = Talk()
    await talk.start(closing_seconds=0.01)
    talk.ends[0][1].write(CLOSE_MASKED)
    assert await talk.over() == (0, 0, "")


@pytest.mark.parametrize(("side", "who"), [(0, "the client"), (1, "the server")])
async def test_a_malformed_frame_ends_the_websocket_with_the_reason(side: int, who: str) -> None:
    talk = Talk()
    await talk.start()
    talk.ends[side][1].write(frame(b"hello", masked=side == 1))
    assert await talk.over() == (0, 0, f"{who} sent a frame with the wrong masking")


async def test_waits_for_the_rest_of_a_frame_head_and_ends_on_reset() -> None:
    talk = Talk()
    await talk.start()
    whole = frame(b"hello", masked=True)
    talk.ends[0][1].write(whole[:1])
    await asyncio.sleep(0.02)
    talk.ends[0][1].write(whole[1:])
    assert await talk.ends[1][0].readexactly(11) == whole
    talk.ends[1][1].transport.abort()
    talk.ends[0][1].write(whole * 1000)
    assert (await talk.over())[2] == ""


@pytest.mark.parametrize(("side", "kind", "passed"), [(0, "upload", (5, 0)), (1, "download", (0, 5))])
async def test_ends_before_forwarding_a_frame_beyond_the_budget(side: int, kind: str, passed: tuple[int, int]) -> None:
    talk = Talk()
    await talk.start()
    whole = frame(b"hello", masked=side == 0)
    left = {kind: len(whole)}

    def spend(kind: str, amount: int) -> OverBudget | None:
        left[kind] -= amount
        return OverBudget("used up", 9) if left[kind] < 0 else None

    talk.exchange.spend = spend
    talk.ends[side][1].write(whole)
    assert await talk.ends[1 - side][0].readexactly(len(whole)) == whole
    talk.ends[side][1].write(whole)
    assert await talk.over() == (*passed, "used up")
    assert await talk.ends[1 - side][0].read() == b""
    assert talk.exchange.outcome.cause == "budget"
