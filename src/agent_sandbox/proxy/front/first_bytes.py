"""Read the first bytes of a connection, within the limits, until they can be classified."""

import asyncio
from collections.abc import Callable

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.wire.http1_head import BadHeadError, RequestHead, find_request_end, parse_request
from agent_sandbox.proxy.wire.sniff import RawTunnelError


async def judged[T](peekable: PeekableReader, judge: Callable[[bytes], T | None], limits: Limits) -> T:
    """Return the result of `judge` for the first bytes, which stay in `peekable`; None from `judge` means "read more".

    Raises `RawTunnelError`, and whatever `judge` raises.
    """
    try:
        async with asyncio.timeout(limits.hello_seconds):
            while True:
                verdict = judge(peekable.ahead) if peekable.ahead else None
                if verdict is not None:
                    return verdict
                if len(peekable.ahead) > limits.hello_bytes:
                    raise RawTunnelError("the client's first message is too long")
                if not await peekable.more():
                    when = "during" if peekable.ahead else "before"
                    raise RawTunnelError(f"the client closed the connection {when} its first message")
    except TimeoutError:
        raise RawTunnelError("the client's first message did not arrive in time") from None


async def whole_head(peekable: PeekableReader, limits: Limits) -> tuple[RequestHead, int]:
    """Return the first request head and its length in bytes; it stays in `peekable`.

    Raises `BadHeadError`, and `OSError` if the client closes the connection.
    """
    try:
        async with asyncio.timeout(limits.head_seconds):
            while not (end := find_request_end(peekable.ahead, limits)):
                if not await peekable.more():
                    raise ConnectionAbortedError
    except TimeoutError:
        raise BadHeadError("the request head did not arrive in time", 408) from None
    return parse_request(peekable.ahead[:end], limits), end
