"""The costs of our proxy: HTTP/1.1 clients, served by the lane, and HTTP/2 clients."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.client import Client, Http2Client, read_answer
from benchmarks.proxy import first_event, kept_alive, new_connections
from benchmarks.servers import HOST, Server, ours, upstream
from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
CONNECTIONS, REQUESTS, FAR = 60, 300, 7
CROWD, TURNS = 32, 40
IDLE = 300
ONE_WAY = 0.015
DOWN = 200 * 1024 * 1024

WANTED = (
    ("connection", "CPU per new TLS connection and GET", "us", "<= 2,000 us"),
    ("request", "CPU per kept-alive GET", "us", "<= 216 us"),
    ("crowd", "CPU per kept-alive GET, 32 connections in turn", "us", "<= 166 us"),
    ("first", "host 30 ms away, first connection and GET", "ms", ""),
    ("far", "host 30 ms away, another connection and GET", "ms", "<= 36 ms"),
    ("down", "CPU for 200 MB down", "ms", ""),
    ("event", "connect to first server-sent event", "ms", ""),
    ("connection2", "CPU per new TLS connection and GET over HTTP/2", "us", ""),
    ("request2", "CPU per GET on an open connection over HTTP/2", "us", ""),
    ("far2", "host 30 ms away, another connection and GET over HTTP/2", "ms", ""),
    ("idle", "memory per idle connection", "KB", "<= 40 KB"),
)


def crowd(client: Client) -> None:
    """Ask on many connections at once, again and again."""
    ask = f"GET /bytes/10 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(client.connection()) for _ in range(CROWD)]
        for _ in range(TURNS):
            for connection in connections:
                connection.sendall(ask)
            for connection in connections:
                read_answer(connection)


def measure(server: Server, far: Server, figures: defaultdict[str, list[float]]) -> None:
    """Add one round of every figure."""
    client = Client(server)
    over_http2 = Http2Client(server)
    new_connections(over_http2)  # imports mitmproxy
    for figure, asking, work, count in (
        ("connection", client, new_connections, CONNECTIONS),
        ("request", client, kept_alive, REQUESTS),
        ("connection2", over_http2, new_connections, CONNECTIONS),
        ("request2", over_http2, kept_alive, REQUESTS),
    ):
        before = server.cpu()
        work(asking)
        figures[figure].append(1_000_000 * (server.cpu() - before) / count)
    before = server.cpu()
    crowd(client)
    figures["crowd"].append(1_000_000 * (server.cpu() - before) / (CROWD * TURNS))
    before = server.cpu()
    with client.connection() as connection:
        client.request(connection, f"GET /bytes/{DOWN}")
    figures["down"].append(1000 * (server.cpu() - before))
    figures["event"].append(1000 * first_event(client))
    with contextlib.ExitStack() as stack:
        memory = server.memory()
        for _ in range(IDLE):
            client.request(stack.enter_context(client.connection()), "GET /bytes/10")
        figures["idle"].append(1024 * (server.memory() - memory) / IDLE)
    away = Client(far)
    took = [far_request(away) for _ in range(1 + FAR)]
    figures["first"].append(took[0])
    figures["far"].append(statistics.median(took[1:]))
    over_http2 = Http2Client(far)
    far_request(over_http2)
    figures["far2"].append(statistics.median(far_request(over_http2) for _ in range(FAR)))


def far_request(client: Client) -> float:
    """Return the ms of a request on a new connection."""
    started = time.perf_counter()
    with client.connection() as connection:
        client.request(connection, "GET /bytes/10")
        return 1000 * (time.perf_counter() - started)


@contextlib.contextmanager
def delayed(port: int, *, one_way: float = ONE_WAY) -> Iterator[int]:
    """Relay to `port`, with a delay in both directions, in seconds; hand out the port of the relay."""
    loop, listening = asyncio.new_event_loop(), threading.Event()
    ports: list[int] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                loop.call_later(one_way, writer.write, data)
        loop.call_later(2 * one_way, writer.close)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * one_way)  # of the TCP handshake
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)

    async def serve() -> None:
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        listening.set()

    serving = loop.create_task(serve())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening.wait(5)
    try:
        yield ports[0]
        assert serving.done()  # noqa: S101
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)


def rows() -> list[Row]:
    """Measure everything."""
    figures: defaultdict[str, list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(upstream(folder))
        away = stack.enter_context(delayed(port))
        for _ in range(ROUNDS):
            with ours(folder, port) as server, ours(folder, away) as far:
                new_connections(Client(server))
                measure(server, far, figures)
    return [Row(figure=title, unit=unit, ours=figures[key], goal=goal) for key, title, unit, goal in WANTED]
