"""Relay WebSocket frames as they arrive, until one side ends."""

import asyncio
from collections.abc import Callable
from functools import partial

from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.fair_scheduler import FairScheduler, Work
from agent_sandbox.proxy.secrets.redacted_frames import server_frames
from agent_sandbox.proxy.wire.websocket_frames import BadFrameError, Frames


async def relay_frames(
    client: ByteStream, server: ByteStream, exchange: Exchange, limits: Limits, turns: FairScheduler
) -> None:
    """Forward the frames of both sides, redacted, until one side leaves or both have closed. Count their payload."""
    sent = Frames(masked=True, longest=limits.websocket_bytes)
    received = server_frames(exchange.echoes, longest=limits.websocket_bytes)
    passing = [
        asyncio.create_task(_pass(client, server, sent, "the client", partial(_spend, exchange, "upload"), turns)),
        asyncio.create_task(
            _pass(server, client, received, "the server", partial(_spend, exchange, "download"), turns)
        ),
    ]
    try:
        await _until_over(passing, lambda: sent.closed or received.closed, limits)
        exchange.error = next((why for task in passing if task.done() and (why := task.result())), "")
    finally:
        exchange.sent.count += sent.count
        exchange.received.count += received.count
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)


async def _until_over(passing: list[asyncio.Task[str]], is_closing: Callable[[], bool], limits: Limits) -> None:
    done, left = await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
    # The other side should send a Close too, but some never do.
    if left and is_closing() and not any(task.result() for task in done):
        await asyncio.wait(left, timeout=limits.websocket_closing_seconds)


def _spend(exchange: Exchange, kind: str, size: int) -> str:
    over = exchange.spend(kind, size)
    if over is None:
        return ""
    exchange.over_budget(over)
    return over.reason


async def _pass(  # noqa: PLR0913, PLR0917 - one side of a WebSocket
    source: ByteStream,
    target: ByteStream,
    frames: Frames,
    who: str,
    spend: Callable[[int], str],
    turns: FairScheduler,
) -> str:
    """Forward frames until a Close or the end. Return why they cannot be forwarded, if they cannot."""
    work = Work()
    try:
        while not frames.closed:
            if not source.buffer and not await source.more():
                break
            arrived = bytes(source.buffer.maybe_extract_at_most(len(source.buffer)) or b"")
            if why := spend(len(arrived)):
                return why
            pieces, is_over = frames.read(arrived), False
            while not is_over:
                data, is_over = await turns.next(pieces, work)
                target.write(data)
                await target.drain()
    except BadFrameError as bad:
        return f"{who} sent {bad}"
    except ConnectionError:
        pass
    return ""
