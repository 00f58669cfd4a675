"""Reads ahead on a connection until its first bytes can be judged, for as long and as much as the limits say."""

import asyncio
from collections.abc import Callable

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.wire.http1_head import BadHeadError, Head, find_end, parse_head
from agent_sandbox.proxy.wire.sniff import RawTunnelError


async def judged[T](lead: PeekableReader, judge: Callable[[bytes], T | None], limits: Limits) -> T:
    """Return what `judge` says of the first bytes; they stay in `lead`. Raises `RawTunnelError`, and what it does."""
    try:
        async with asyncio.timeout(limits.hello_seconds):
            while True:
                verdict = judge(lead.ahead) if lead.ahead else None
                if verdict is not None:
                    return verdict
                if len(lead.ahead) > limits.hello_bytes:
                    raise RawTunnelError("the first message is too long")
                if not await lead.more():
                    raise RawTunnelError("closed before it said anything" if not lead.ahead else "closed in its hello")
    except TimeoutError:
        raise RawTunnelError("it said nothing in time") from None


async def whole_head(lead: PeekableReader, limits: Limits) -> tuple[Head, int]:
    """Return the first request head and its length; it stays in `lead`. Raises `BadHeadError`, `OSError` at the end."""
    try:
        async with asyncio.timeout(limits.head_seconds):
            while not (end := find_end(lead.ahead, limits)):
                if not await lead.more():
                    raise ConnectionAbortedError
    except TimeoutError:
        raise BadHeadError("the request head did not arrive in time", 408) from None
    return parse_head(lead.ahead[:end], limits), end
