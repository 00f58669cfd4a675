"""The relay between two ends in one process, and with an end that the agent controls."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_sandbox.features.ports.relay import (
    AMOUNT,
    CHUNK,
    CREDIT,
    DATA,
    END,
    HEAD,
    MOST,
    OPEN,
    PORT,
    RESET,
    WINDOW,
    BrokenRelayError,
    Connection,
    Relay,
    connect,
)

type Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


WRITERS: list[asyncio.StreamWriter] = []
SERVERS: list[asyncio.Server] = []


def run[T](main: Callable[[], Coroutine[None, None, T]]) -> T:
    """Run a test, then close its servers and streams."""

    async def closing() -> T:
        try:
            return await main()
        finally:
            for server in SERVERS:
                server.close()
            for writer in WRITERS:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
            SERVERS.clear()
            WRITERS.clear()
            await asyncio.sleep(0.01)

    return asyncio.run(closing())


async def pair() -> tuple[Streams, Streams]:
    """Return two connected pairs of streams."""
    here, there = socket.socketpair()
    ends = (await asyncio.open_connection(sock=here), await asyncio.open_connection(sock=there))
    WRITERS.extend(writer for _, writer in ends)
    return ends


@asynccontextmanager
async def relays() -> AsyncIterator[Relay]:
    """Run both ends and yield the host's."""
    here, there = await pair()
    host, box = Relay(*here, None), Relay(*there, connect)
    tasks = [asyncio.create_task(one.run()) for one in (host, box)]
    try:
        yield host
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def through(host: Relay, port: int) -> Streams:
    """Return a client's streams to a port of the sandbox."""
    client, inner = await pair()
    connection = host.open(port)
    assert connection is not None
    task = asyncio.create_task(connection.carry(*inner))
    host.running.add(task)
    return client


async def serve(handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> int:
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    SERVERS.append(server)
    return int(server.sockets[0].getsockname()[1])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.binary(min_size=1, max_size=3000), max_size=5), min_size=1, max_size=5))
def test_every_connection_gets_its_own_bytes_back(talks: list[list[bytes]]) -> None:
    async def talk(host: Relay, port: int, parts: list[bytes]) -> bytes:
        reader, writer = await through(host, port)
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0)
        writer.write_eof()
        return await reader.read()

    async def main() -> list[bytes]:
        port = await serve(echo)
        async with relays() as host:
            return await asyncio.gather(*(talk(host, port, parts) for parts in talks))

    assert run(main) == [b"".join(parts) for parts in talks]


def test_transfers_more_than_a_window_in_both_directions() -> None:
    sent = os.urandom(3 * WINDOW)

    async def main() -> bytes:
        port = await serve(echo)
        async with relays() as host:
            reader, writer = await through(host, port)
            writer.write(sent)
            writer.write_eof()
            return await reader.read()

    assert run(main) == sent


def test_a_listener_that_sends_before_it_reads_sends_and_receives_everything() -> None:
    """Neither direction waits for the other, although each carries more than a window."""

    async def send_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(64):
            writer.write(bytes(CHUNK))
            await writer.drain()
        writer.write(AMOUNT.pack(len(await reader.read(-1))))
        writer.close()

    async def main() -> tuple[int, bytes]:
        port = await serve(send_first)
        async with relays() as host, asyncio.timeout(20):
            reader, writer = await through(host, port)
            writer.write(bytes(3 * WINDOW))
            writer.write_eof()
            got = await reader.read()
            return len(got), got[-AMOUNT.size :]

    assert run(main) == (64 * CHUNK + AMOUNT.size, AMOUNT.pack(3 * WINDOW))


def test_a_listener_that_closes_its_sending_half_still_reads() -> None:
    async def main() -> tuple[bytes, bytes]:
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def end_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write_eof()
            heard.put_nowait(await reader.read())
            writer.close()

        port = await serve(end_first)
        async with relays() as host, asyncio.timeout(20):
            reader, writer = await through(host, port)
            got = await reader.read()
            writer.write(b"after its end")
            writer.write_eof()
            return got, await heard.get()

    assert run(main) == (b"", b"after its end")


def test_a_client_that_does_not_read_does_not_block_other_clients() -> None:
    async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(100):
            writer.write(bytes(CHUNK))
            await writer.drain()

    async def main() -> tuple[bytes, int]:
        flooding, echoing = await serve(flood), await serve(echo)
        async with relays() as host:
            await through(host, flooding)
            reader, writer = await through(host, echoing)
            writer.write(b"hello")
            answer = await asyncio.wait_for(reader.readexactly(5), 10)
            return answer, max(one.unread for one in host.connections.values())

    answer, unread = run(main)
    assert answer == b"hello"
    assert unread <= WINDOW


def test_a_port_on_which_nothing_listens_resets_the_connection() -> None:
    async def main() -> bytes:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            async with relays() as host:
                reader, _ = await through(host, closed.getsockname()[1])
                return await asyncio.wait_for(reader.read(), 10)

    assert run(main) == b""  # a reset, on a TCP connection


def test_closes_the_connection_if_the_server_ends_first() -> None:
    async def bye(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.close()

    async def main() -> tuple[bytes, int]:
        port = await serve(bye)
        async with relays() as host:
            reader, writer = await through(host, port)
            answer = await reader.read()
            writer.close()
            for _ in range(100):
                await asyncio.sleep(0.01)
                if not host.connections:
                    break
            return answer, len(host.connections)

    assert run(main) == (b"bye", 0)


def frame(kind: int, number: int, data: bytes = b"") -> bytes:
    return HEAD.pack(kind, number, len(data)) + data


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (frame(OPEN, 1, PORT.pack(22)), "it opens a connection"),
        (frame(OPEN, 9, PORT.pack(22)), "it opens a connection"),
        (frame(DATA, 2, b"x"), "a frame for a connection that never was"),
        (frame(RESET, 0), "a frame for a connection that never was"),
        (frame(DATA, 1), "frame 2 of 0 bytes, which is not allowed here"),
        (frame(99, 1, b"x"), "frame 99 of 1 bytes, which is not allowed here"),
        (frame(END, 1, b"x"), "frame 3 of 1 bytes, which is not allowed here"),
        (frame(END, 1) * 2, "frame 3 of 0 bytes, which is not allowed here"),
        (frame(END, 1) + frame(DATA, 1, b"x"), "frame 2 of 1 bytes, which is not allowed here"),
        (frame(CREDIT, 1, AMOUNT.pack(1)), "more credit than was used"),
        (frame(CREDIT, 1, b"\1"), "frame 5 of 1 bytes, which is not allowed here"),
        (HEAD.pack(DATA, 1, CHUNK + 1), f"a frame of {CHUNK + 1} bytes"),
        (frame(DATA, 1, bytes(CHUNK)) * (WINDOW // CHUNK + 1), f"frame 2 of {CHUNK} bytes, which is not allowed here"),
    ],
)
def test_a_forbidden_frame_from_the_sandbox_ends_the_relay(sent: bytes, what: str) -> None:
    async def main() -> None:
        here, (_, writer) = await pair()
        host = Relay(*here, None)
        assert host.open(80) is not None  # nothing reads from it
        writer.write(sent)
        await asyncio.wait_for(host.run(), 10)

    with pytest.raises(BrokenRelayError) as raised:
        run(main)
    assert str(raised.value) == what


def test_a_reset_ends_one_connection_and_a_late_frame_for_it_is_ignored() -> None:
    async def main() -> tuple[int, bytes]:
        here, (reader, writer) = await pair()
        host = Relay(*here, None)
        running = asyncio.create_task(host.run())
        client, _ = await through(host, 80)
        head = await reader.readexactly(HEAD.size + PORT.size)
        writer.write(frame(RESET, 1))
        assert await client.read() == b""
        writer.write(frame(DATA, 1, b"late"))
        writer.close()
        await asyncio.wait_for(running, 10)
        return len(host.connections), head

    left, head = run(main)
    assert (left, head) == (0, frame(OPEN, 1, PORT.pack(80)))


def test_unread_tiny_parts_take_no_more_memory_than_their_bytes() -> None:
    async def main() -> tuple[int, int]:
        here, _ = await pair()
        connection = Connection(Relay(*here, None), 1)
        for _ in range(10_000):
            connection.take(DATA, b"x")
        return len(connection.arrived), connection.unread

    assert run(main) == (10_000, 10_000)


def test_limits_the_number_of_connections() -> None:
    async def main() -> list[bool]:
        here, _ = await pair()
        host = Relay(*here, None)
        return [host.open(80) is not None for _ in range(MOST + 1)]

    assert run(main) == [True] * MOST + [False]
