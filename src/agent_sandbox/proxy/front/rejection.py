"""End a denied connection: write the audit record, send the response, close without losing it."""

import asyncio
import contextlib
from collections.abc import Callable

from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import Denial, page, reason_phrase
from agent_sandbox.proxy.net.linger_close import LINGER_BYTES
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.sniff import RawTunnelError, WrongNameError

LINGER_SECONDS = 1.0
# Fatal TLS alerts.
UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"
INTERNAL_ERROR = b"\x15\x03\x03\x00\x02\x02\x50"


class Rejection:
    """Rejects one connection."""

    def __init__(
        self, record: Callable[[AuditRecord], None], peekable: PeekableReader, writer: asyncio.StreamWriter
    ) -> None:
        self._record = record
        self._peekable = peekable
        self._writer = writer

    async def deny(self, denial: Denial, line: AuditRecord) -> None:
        """Send the denial and close."""
        line = replace(line, reason=denial.reason, status=denial.status)
        phrase = reason_phrase(denial) if denial.method == "CONNECT" else b""
        await self.kill(line, response=page(denial).http1(phrase))

    async def refuse(self, fault: RawTunnelError | WrongNameError, line: AuditRecord) -> None:
        """Close a connection that carries nothing the proxy forwards, with a TLS alert if its SNI is wrong."""
        line = replace(line, reason=str(fault))
        if isinstance(fault, WrongNameError):
            await self.kill(line, response=UNRECOGNIZED_NAME)
            return
        await self.kill(replace(line, event=Event.RAW_TUNNEL))

    async def fail(self, reason: str, tunnel: Tunnel) -> None:
        """Close a TLS connection that cannot be served, with an alert."""
        line = AuditRecord(event=Event.FAULT, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client)
        await self.kill(line, response=INTERNAL_ERROR)

    async def kill(self, line: AuditRecord, response: bytes = b"") -> None:
        """Write the audit record, send `response`, and close."""
        self._record(line)
        if response:
            self._writer.write(response)
        # Closing with unread bytes would reset the connection, and the client would never see the response.
        left = LINGER_BYTES
        with contextlib.suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and await self._peekable.more():
                    left -= len(self._peekable.take(len(self._peekable.ahead)))
