"""The sockets of the DNS server. What answers is imported with the first query: it was a sixth of the proxy's start."""

import asyncio
from collections.abc import Callable
from typing import cast, override

from agent_sandbox.proxy.net.connection_limit import ConnectionLimiter
from agent_sandbox.proxy.net.linger_close import linger_close

# A name has at most 255 bytes, and a typical query with EDNS about 100. Parsing a long query can take seconds.
LONGEST_QUESTION = 512
PATIENCE_SECONDS = 10.0
CONNECTIONS = 16  # per client; beyond it, the one that was idle the longest is closed
QUESTIONS = 100  # on one connection

# Returns the response to one message of a client, None for no response.
Answer = Callable[[bytes, str], bytes | None]


class OverUdp(asyncio.DatagramProtocol):
    """DNS over UDP: one datagram, one response."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    @override
    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if answer := self._answer(data, addr[0]):
            self._transport.sendto(answer, addr)


class OverTcp:
    """DNS over TCP: any number of queries on a connection, each prefixed with its length."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._registry = ConnectionLimiter(limit=CONNECTIONS)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        client = str((writer.get_extra_info("peername") or ("",))[0])
        with self._registry.admit(client, writer.transport.abort) as place:
            try:
                for _ in range(QUESTIONS):
                    answer = self._answer(await _next_question(reader), client)
                    if answer is None:
                        break
                    place.served()
                    writer.write(len(answer).to_bytes(2) + answer)
                    await writer.drain()
                    # Reading buffered data does not yield; let other tasks run.
                    await asyncio.sleep(0)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                pass  # the client closed the connection, or timed out
            finally:
                await linger_close(writer, seconds=PATIENCE_SECONDS)


async def _next_question(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS):
        length = int.from_bytes(await reader.readexactly(2))
        return await reader.readexactly(length) if length <= LONGEST_QUESTION else b""
