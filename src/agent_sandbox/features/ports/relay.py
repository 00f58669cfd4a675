"""Carry connections over one pair of pipes. This file runs on both ends: it may use the standard library only.

Only the host side opens connections, by the number of a port; the side in the sandbox connects to it on its loopback
interface, or at the service beside the sandbox that follows the number. A frame is a kind, a connection, a length, and
that many bytes. Each side sends at most `WINDOW` bytes that the other one has not passed on yet, so a slow reader does
not delay other connections or use more memory. Anything that breaks these rules ends the relay: the agent controls what
the sandbox sends.
"""

import asyncio
import fcntl
import struct
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import IO

HEAD = struct.Struct(">BII")
PORT, AMOUNT = struct.Struct(">H"), struct.Struct(">I")
OPEN, DATA, END, RESET, CREDIT = range(1, 6)
WINDOW = 1 << 20
CHUNK = 1 << 18
MOST = 512
LONGEST_OPEN = 64
LOOPBACK = ("127.0.0.1", "::1")


class BrokenRelayError(Exception):
    """The other side violated the protocol."""


class Connection:
    """One connection, with a socket on this side."""

    def __init__(self, relay: "Relay", number: int) -> None:
        self.relay, self.number = relay, number
        # What came and is not written yet, however small its parts were; and what is not drained yet.
        self.arrived = bytearray()
        self.more = asyncio.Event()
        self.unread = 0
        self.credit = WINDOW
        self.more_credit = asyncio.Event()
        self.writer: asyncio.StreamWriter | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.ended = False
        # Whether the other side has sent anything, and whether it ended the connection before that.
        self.heard = self.refused = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass data on in both directions until both have ended."""
        self.writer = writer
        self.tasks = [asyncio.create_task(self._send(reader)), asyncio.create_task(self._receive(writer))]
        try:
            await asyncio.gather(*self.tasks)
        except (OSError, asyncio.CancelledError):
            self.relay.send(RESET, self.number)
            writer.transport.abort()
        finally:
            for task in self.tasks:
                task.cancel()
            self.relay.connections.pop(self.number, None)
            writer.close()

    async def _send(self, reader: asyncio.StreamReader) -> None:
        while True:
            while not self.credit:
                self.more_credit.clear()
                await self.more_credit.wait()
            data = await reader.read(min(self.credit, CHUNK))
            if not data:
                self.relay.send(END, self.number)
                return
            self.credit -= len(data)
            self.relay.send(DATA, self.number, data)
            await self.relay.writer.drain()

    async def _receive(self, writer: asyncio.StreamWriter) -> None:
        while self.arrived or not self.ended:
            if not self.arrived:
                self.more.clear()
                await self.more.wait()
                continue
            data = bytes(self.arrived)
            self.arrived.clear()
            writer.write(data)
            await writer.drain()
            self.unread -= len(data)
            self.relay.send(CREDIT, self.number, AMOUNT.pack(len(data)))
            await self.relay.writer.drain()
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    def take(self, kind: int, data: bytes) -> None:
        """Handle a frame for this connection; raise BrokenRelayError for one that breaks the rules."""
        self.refused = kind == RESET and not self.heard
        self.heard = True
        if kind == RESET:
            for task in self.tasks:
                task.cancel()
        elif kind == CREDIT and len(data) == AMOUNT.size:
            self.credit += AMOUNT.unpack(data)[0]
            if self.credit > WINDOW:
                raise BrokenRelayError("more credit than was used")
            self.more_credit.set()
        elif kind == END and not (data or self.ended):
            self.ended = True
            self.more.set()
        elif kind == DATA and data and not self.ended and self.unread + len(data) <= WINDOW:
            self.unread += len(data)
            self.arrived += data
            self.more.set()
        else:
            raise BrokenRelayError(f"frame {kind} of {len(data)} bytes, which is not allowed here")


type Accept = Callable[[Connection, int, str], Coroutine[None, None, None]]


class Relay:
    """All connections over one pair of pipes. `accept` handles an OPEN; without it, an OPEN breaks the rules."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, accept: Accept | None) -> None:
        self.reader, self.writer, self.accept = reader, writer, accept
        self.connections: dict[int, Connection] = {}
        self.last = 0
        self.running: set[asyncio.Task[None]] = set()

    def send(self, kind: int, number: int, data: bytes = b"") -> None:
        """Write a frame."""
        if not self.writer.is_closing():
            self.writer.write(HEAD.pack(kind, number, len(data)) + data)

    def open(self, port: int, service: str = "") -> Connection | None:
        """Open a connection to a port of the other side, or of a service there; None if there are too many."""
        if len(self.connections) >= MOST:
            return None
        self.last += 1
        connection = self.connections[self.last] = Connection(self, self.last)
        self.send(OPEN, self.last, PORT.pack(port) + service.encode("ascii"))
        return connection

    async def run(self) -> None:
        """Handle frames until the other side ends; raise BrokenRelayError if it breaks the rules."""
        try:
            while True:
                try:
                    kind, number, length = HEAD.unpack(await self.reader.readexactly(HEAD.size))
                    if length > CHUNK:
                        raise BrokenRelayError(f"a frame of {length} bytes")
                    data = await self.reader.readexactly(length)
                except asyncio.IncompleteReadError:
                    return
                self._take(kind, number, data)
        finally:
            tasks = [*self.running, *(task for one in self.connections.values() for task in one.tasks)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, kind: int, number: int, data: bytes) -> None:
        if kind == OPEN:
            if self.accept is None or number in self.connections or not PORT.size <= len(data) <= LONGEST_OPEN:
                raise BrokenRelayError("it opens a connection")
            connection = self.connections[number] = Connection(self, number)
            service = data[PORT.size :].decode("ascii", "replace")
            task = asyncio.create_task(self.accept(connection, PORT.unpack_from(data)[0], service))
            self.running.add(task)
            task.add_done_callback(self.running.discard)
        elif number in self.connections:
            self.connections[number].take(kind, data)
        elif not 0 < number <= (self.last or number):
            raise BrokenRelayError("a frame for a connection that never was")
        # Else the connection has ended here, and the other side did not know yet.


async def connect(connection: Connection, port: int, service: str) -> None:
    """Connect to a port of a service, or of this machine's loopback interface, and carry the connection."""
    for host in (service,) if service else LOOPBACK:
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except OSError:
            continue
        await connection.carry(reader, writer)
        return
    connection.relay.send(RESET, connection.number)
    connection.relay.connections.pop(connection.number, None)


def widen(pipe: IO[bytes]) -> None:
    """Let a pipe hold more than the usual 64 KiB, if the system can, so that all on the way wake up less often.

    Not for what comes in through an engine: containerd fills such a pipe at half the speed.
    """
    with suppress(OSError, AttributeError, ValueError):  # ValueError: the other side has closed it already
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, WINDOW)


async def read_pipe(pipe: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Return a reader of a pipe, and the transport that closes it."""
    reader = asyncio.StreamReader(limit=2 * CHUNK)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


async def _inside() -> None:
    """Be the side in the sandbox: frames come from stdin and go to stdout."""
    loop = asyncio.get_running_loop()
    reader, _ = await read_pipe(sys.stdin.buffer)
    widen(sys.stdout.buffer)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), sys.stdout.buffer
    )
    await Relay(reader, asyncio.StreamWriter(transport, protocol, None, loop), connect).run()


if __name__ == "__main__":
    asyncio.run(_inside())
