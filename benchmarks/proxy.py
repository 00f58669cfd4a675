"""Our proxy beside plain mitmdump of the same version, round by round in turn."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.client import Client, DirectClient
from benchmarks.servers import Server, direct, mitmdump, ours, upstream
from benchmarks.table import Ratio, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 5
CONNECTIONS = 60
REQUESTS = 300
EVENTS = 7
DOWN = 200 * 1024 * 1024
UP_BLOCK = b"x" * 1024 * 1024
UP_TIMES = 100

WANTED = (
    ("connection", "CPU per new intercepted connection", "ms", "1.5x"),
    ("request", "CPU per kept-alive request", "ms", "1.6x"),
    ("down", "CPU for 200 MB down", "ms", "3x"),
    ("up", "CPU for 100 MB up", "ms", "3x"),
    ("growth", "memory growth while 300 MB pass", "MB", "<= 5 MB"),
    ("event", "connect to first server-sent event", "ms", ""),
    ("echo", "WebSocket echo", "ms", ""),
    ("idle", "idle memory", "MB", ""),
    ("start", "start to listening", "ms", ""),
)

STARTS = (("ours", ours), ("other", mitmdump))

Figures = defaultdict[str, list[float]]


def new_connections(client: Client) -> None:
    """One request on each of many connections."""
    for _ in range(CONNECTIONS):
        with client.connection() as connection:
            client.request(connection, "GET /bytes/10")


def kept_alive(client: Client) -> None:
    """Many requests on one connection."""
    with client.connection() as connection:
        for _ in range(REQUESTS):
            client.request(connection, "GET /bytes/10")


def first_event(client: Client) -> float:
    """Return the median of a few."""
    return statistics.median(client.first_event() for _ in range(EVENTS))


def measure(server: Server, figures: Figures) -> None:
    """Add one round of every figure."""
    client = Client(server)

    @contextlib.contextmanager
    def cpu(figure: str, per: int) -> Iterator[None]:
        before = server.cpu()
        yield
        figures[figure].append(1000 * (server.cpu() - before) / per)

    with cpu("connection", CONNECTIONS):
        new_connections(client)
    with cpu("request", REQUESTS):
        kept_alive(client)
    before = server.memory()
    with cpu("down", 1), client.connection() as connection:
        client.request(connection, f"GET /bytes/{DOWN}")
    with cpu("up", 1), client.connection() as connection:
        client.request(connection, "POST /up", UP_BLOCK, times=UP_TIMES)
    figures["growth"].append(server.memory() - before)
    figures["event"].append(1000 * first_event(client))
    figures["echo"].append(1000 * client.echoes(100))


def rows() -> list[Row]:
    """Measure both proxies in turn."""
    figures: dict[str, Figures] = {"ours": defaultdict(list), "other": defaultdict(list)}
    direct_event: list[float] = []
    with tempfile.TemporaryDirectory() as name, upstream(Path(name)) as port:
        folder = Path(name)
        for turn in range(ROUNDS):
            # In turns, for whoever comes second meets another machine.
            for side, start in STARTS if turn % 2 == 0 else STARTS[::-1]:
                with start(folder, port) as server:
                    figures[side]["start"].append(1000 * server.started_in)
                    figures[side]["idle"].append(server.memory())
                    new_connections(Client(server))
                    measure(server, figures[side])
            direct_event.append(1000 * first_event(DirectClient(direct(folder, port))))
    own, other = figures["ours"], figures["other"]
    beside_direct = Row(
        figure="connect to first server-sent event, beside no proxy",
        unit="ms",
        ours=own["event"],
        other=direct_event,
        beside="direct",
        goal="6 ms more",
        ratio=Ratio.MORE,
    )
    return [
        *(
            Row(figure=title, unit=unit, ours=own[key], other=other[key], beside="mitmdump", goal=goal)
            for key, title, unit, goal in WANTED
        ),
        beside_direct,
    ]
