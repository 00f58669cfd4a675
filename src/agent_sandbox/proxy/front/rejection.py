"""How a connection ends that leads nowhere: one line, last words, and a close that lets the client read them."""

import asyncio
import contextlib
from collections.abc import Callable

from agent_sandbox.proxy.audit.record import AuditRecord, Event
from agent_sandbox.proxy.exchange.denial import Denial, in_a_phrase, page
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.wire.sniff import RawTunnelError, WrongNameError

LINGER_SECONDS = 1.0
UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"  # a fatal TLS alert


class Rejection:
    """Says goodbye on one connection."""

    def __init__(
        self, record: Callable[[AuditRecord], None], lead: PeekableReader, writer: asyncio.StreamWriter
    ) -> None:
        self._record = record
        self._lead = lead
        self._writer = writer

    async def deny(self, denial: Denial, line: AuditRecord) -> None:
        """Answer with the denial, and close."""
        line.reason, line.status = denial.reason, denial.status
        phrase = in_a_phrase(denial) if denial.method == "CONNECT" else b""
        await self.kill(line, last_words=page(denial).http1(phrase))

    async def refuse(self, fault: RawTunnelError | WrongNameError, line: AuditRecord) -> None:
        """Close what says nothing that may go on; TLS for a wrong name hears an alert, and all else no word."""
        line.reason = str(fault)
        if isinstance(fault, WrongNameError):
            await self.kill(line, last_words=UNRECOGNIZED_NAME)
            return
        line.event = Event.RAW_TUNNEL
        await self.kill(line)

    async def kill(self, line: AuditRecord, last_words: bytes = b"") -> None:
        """Write the line down, and close."""
        self._record(line)
        if last_words:
            self._writer.write(last_words)
        # Closing with unread bytes would reset the connection, and the client would never see what we said last.
        with contextlib.suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._lead.more():
                    self._lead.take(len(self._lead.ahead))
