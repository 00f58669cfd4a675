"""The proxy with and without each of its performance shims, round by round in turn.

Every figure is CPU time that the kernel counts for the proxy process, except memory. A ratio is the cost without the
shim over the cost with it: at 1.10x, its loss would cost a tenth.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.client import Client, Http2Client
from benchmarks.servers import ours, upstream
from benchmarks.table import Row
from benchmarks.without import WITHOUT

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 11
STARTS = 11
CONNECTIONS = 40
REQUESTS = 600
BODY = 200 * 1024 * 1024
BLOCK = b"x" * 1024 * 1024

REQUEST, CONNECTION, DOWN, UP = "kept-alive request", "new connection", "200 MB down", "200 MB up"
START, IDLE, STOP = "start", "idle memory", "stop"
EXCHANGE = (REQUEST, CONNECTION)
BODIES = (DOWN, UP)
# The figures that each shim was made for. The last row is the noise: it changes nothing.
MADE_FOR: dict[str, tuple[str, ...]] = {
    "exit without unloading": (STOP,),
    "type check of messages off": (REQUEST,),
    "EngineOptions": EXCHANGE,
    "hooks run in place": EXCHANGE,
    "coalesce": EXCHANGE,
    "bulk_tls": (DOWN,),
    "TLS writes of several records": BODIES,
    "BulkReader": BODIES,
    "BodyBuffer": BODIES,
    "certificates kept": (CONNECTION,),
    "nothing (the noise of this measurement)": (REQUEST, CONNECTION, DOWN, UP, START, IDLE, STOP),
}
# These are in mitmproxy's layers, which serve only clients that get HTTP/2.
OVER_HTTP2 = frozenset({"type check of messages off", "EngineOptions", "hooks run in place", "coalesce", "bulk_tls"})


def requests(client: Client) -> None:
    """Many requests on one connection."""
    with client.connection() as connection:
        for _ in range(REQUESTS):
            client.request(connection, "GET /bytes/10")


def connections(client: Client) -> None:
    """One request on each of many connections."""
    for _ in range(CONNECTIONS):
        with client.connection() as connection:
            client.request(connection, "GET /bytes/10")


def down(client: Client) -> None:
    """A large response."""
    with client.connection() as connection:
        client.request(connection, f"GET /bytes/{BODY}")


def up(client: Client) -> None:
    """A large request."""
    with client.connection() as connection:
        client.request(connection, "POST /up", BLOCK, times=BODY // len(BLOCK))


TRAFFIC: dict[str, Callable[[Client], None]] = {
    REQUEST: requests,
    CONNECTION: connections,
    DOWN: down,
    UP: up,
}
PER = {REQUEST: REQUESTS, CONNECTION: CONNECTIONS}


def spent(client: Client, figure: str) -> float:
    """Return the CPU milliseconds that one piece of the traffic costs."""
    server, before = client.server, client.server.cpu()
    TRAFFIC[figure](client)
    return 1000 * (server.cpu() - before) / PER.get(figure, 1)


def started(folder: Path, port: int, without: str) -> dict[str, float]:
    """Return what a start and a stop cost."""
    with ours(folder, port, without=without) as server:
        begun, memory = server.cpu(), server.memory()
        return {START: 1000 * begun, IDLE: memory, STOP: 1000 * (server.stop() - begun)}


def in_turn(turn: int) -> tuple[bool, bool]:
    """Return the order of the two sides. It alternates, because the first run changes the machine for the second."""
    return (True, False) if turn % 2 == 0 else (False, True)


def measured(folder: Path, port: int, shim: str) -> list[Row]:
    """Measure all figures of one shim."""
    figures = MADE_FOR[shim]
    got: dict[tuple[str, bool], list[float]] = {(figure, on): [] for figure in figures for on in (True, False)}
    code = {True: "", False: WITHOUT[shim]}
    if set(figures) & {START, IDLE, STOP}:
        for turn in range(STARTS):
            for on in in_turn(turn):
                one = started(folder, port, code[on])
                for figure in set(figures) & set(one):
                    got[figure, on].append(one[figure])
    traffic = [figure for figure in figures if figure in TRAFFIC]
    if traffic:
        with contextlib.ExitStack() as stack:
            servers = {on: stack.enter_context(ours(folder, port, without=code[on])) for on in (True, False)}
            kind = Http2Client if shim in OVER_HTTP2 else Client
            for server in servers.values():
                connections(kind(server))
            for turn in range(ROUNDS):
                for figure in traffic:
                    for on in in_turn(turn):
                        got[figure, on].append(spent(kind(servers[on]), figure))
    return [
        Row(
            figure=f"{shim}: {figure}",
            unit="MB" if figure == IDLE else "ms",
            ours=got[figure, True],
            other=got[figure, False],
            beside="without",
        )
        for figure in figures
    ]


def rows() -> list[Row]:
    """Measure all shims."""
    with tempfile.TemporaryDirectory() as name, upstream(Path(name)) as port:
        return [row for shim in MADE_FOR for row in measured(Path(name), port, shim)]
