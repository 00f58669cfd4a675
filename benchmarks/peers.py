"""Our proxy beside the peers that are installed, round by round in turn, through one client."""

from __future__ import annotations

import contextlib
import resource
import selectors
import ssl
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, override

from benchmarks.client import Client, read_answer
from benchmarks.lane import delayed
from benchmarks.servers import HOST, Server, direct, process, upstream
from benchmarks.sides import Place, image, sides
from benchmarks.table import Row, matrix

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

ROUNDS = 3
WARM = 30
CONNECTIONS, REQUESTS, FAR, EVENTS = 60, 300, 5, 7
CROWD, CROWD_REQUESTS = 32, 3_000
IDLE = 1_000
MIB = 1024 * 1024
SIZE = 200
DIRECT = "direct"
FIGURES = (
    ("connection", "CPU per new TLS connection and GET, us", "<= 2,000"),
    ("request", "CPU per kept-alive GET, us", "<= 216"),
    ("crowd cpu", "CPU per kept-alive GET, 32 connections, us", ""),
    ("crowd", "kept-alive GETs/s, 32 connections", ">= 6,000"),
    ("new p50", "new TLS connection and GET, p50, ms", ""),
    ("new p99", "new TLS connection and GET, p99, ms", ""),
    ("kept p50", "kept-alive GET, p50, ms", ""),
    ("kept p99", "kept-alive GET, p99, ms", ""),
    ("far", "host 30 ms away, new connection and GET, ms", "<= 36"),
    ("event", "connect to first server-sent event, ms", ""),
    ("open event", "first server-sent event on an open connection, ms", "<= 0.6"),
    ("down", "200 MB down, MB/s", ">= 400"),
    ("up", "200 MB up, MB/s", ">= 400"),
    ("growth", "memory growth while 400 MB pass, MB", "<= 3"),
    ("idle", "memory of 1,000 idle connections, MB", "<= 40"),
    ("start", "start to listening, ms", "<= 350"),
    ("memory", "idle memory after the start, MB", "<= 55"),
)

Figures = defaultdict[str, list[float]]


class Guest(Client):
    """A client of one side, for the server at a port; directly, if the side is the server itself."""

    def __init__(self, server: Server, port: int, *, through: bool) -> None:
        super().__init__(server if through else direct(server.ca.parent, port))
        self._through, self.authority = through, f"{HOST}:{port}"
        self.ask = f"GET /bytes/10 HTTP/1.1\r\nHost: {self.authority}\r\n\r\n".encode()
        if not through:
            self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the lab's authority is a plain one

    @override
    def reach(self, plain: socket.socket) -> None:
        if not self._through:
            return
        plain.sendall(f"CONNECT {self.authority} HTTP/1.1\r\nHost: {self.authority}\r\n\r\n".encode())
        answer = plain.recv(4096)
        if b" 200 " not in answer:
            raise ConnectionError(answer.decode())


def rows() -> list[Row]:
    """Measure everything in turn, and print a table with a column for each side."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    starts = sides()
    figures: dict[str, Figures] = {name: defaultdict(list) for name in (*starts, DIRECT)}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        loads = stack.enter_context(upstream(folder))
        origin = stack.enter_context(light_server(folder))
        far = stack.enter_context(delayed(origin))
        place = Place(folder=folder, ports=(origin, loads, far), image=image())
        names = [*starts]
        for turn in range(ROUNDS):
            for name in names if turn % 2 == 0 else reversed(names):
                print(f"round {turn + 1}: {name}", file=sys.stderr, flush=True)
                with starts[name](place) as server:
                    measure(server, place, figures[name])
            none = direct(folder, origin)
            times(none, place, figures[DIRECT], through=False)
    where = "the proxy's image" if place.image else "this Python"
    goals = {title: goal for _, title, goal in FIGURES}
    print(f"peers: ours and mitmdump with {where}; medians of {ROUNDS} rounds in turn\n")
    print(matrix([*starts, DIRECT], {title: summary(key, figures) for key, title, _ in FIGURES}, goals), flush=True)
    return []


def summary(key: str, figures: dict[str, Figures]) -> dict[str, float]:
    """Return a figure of each side: the median of its rounds, or a percentile of all its samples."""
    base, _, percent = key.partition(" p")
    if not percent:
        return {side: statistics.median(found[key]) for side, found in figures.items() if found[key]}
    place = int(percent) - 1
    return {side: statistics.quantiles(found[base], n=100)[place] for side, found in figures.items() if found[base]}


@contextlib.contextmanager
def light_server(folder: Path, *more: Path) -> Iterator[int]:
    """Run the server that costs little; hand out its port."""
    with process(sys.executable, Path(__file__).with_name("origin.py"), folder / "leaf.pem", *more) as running:
        assert running.stdout is not None  # noqa: S101
        yield int(running.stdout.readline())


def measure(server: Server, place: Place, figures: Figures) -> None:
    """Add one round of every figure of a proxy that has just started."""
    origin, loads, _ = place.ports
    figures["start"].append(1000 * server.started_in)
    figures["memory"].append(server.memory())
    client = Guest(server, origin, through=True)
    for _ in range(WARM):
        one_request(client)

    def cpu(key: str, work: Callable[[], object], per: int) -> None:
        before = server.cpu()
        work()
        figures[key].append(1_000_000 * (server.cpu() - before) / per)

    cpu("connection", lambda: figures["new"].extend(timed(one_request, client, CONNECTIONS)), CONNECTIONS)
    with client.connection() as connection:
        client.request(connection, "GET /bytes/10")
        cpu("request", lambda: figures["kept"].extend(timed(again, (connection, client.ask), REQUESTS)), REQUESTS)
    cpu("crowd cpu", lambda: figures["crowd"].append(crowd(client)), CROWD_REQUESTS)
    far_and_event(server, place, figures, through=True)
    figures["idle"].append(idle_memory(server, client))
    before = server.memory()
    figures["down"].append(download(Guest(server, loads, through=True)))
    try:
        figures["up"].append(upload(Guest(server, loads, through=True)))
    except OSError as error:
        print(f"left out: 200 MB up, which ended with {type(error).__name__}", file=sys.stderr)
    figures["growth"].append(server.memory() - before)


def times(server: Server, place: Place, figures: Figures, *, through: bool) -> None:
    """Add one round of all that is a time, without a proxy."""
    origin, loads, _ = place.ports
    client = Guest(server, origin, through=through)
    figures["new"].extend(timed(one_request, client, CONNECTIONS))
    with client.connection() as connection:
        figures["kept"].extend(timed(again, (connection, client.ask), REQUESTS))
    figures["crowd"].append(crowd(client))
    far_and_event(server, place, figures, through=through)
    figures["down"].append(download(Guest(server, loads, through=through)))
    figures["up"].append(upload(Guest(server, loads, through=through)))


def far_and_event(server: Server, place: Place, figures: Figures, *, through: bool) -> None:
    _, loads, far = place.ports
    figures["far"].append(statistics.median(timed(one_request, Guest(server, far, through=through), FAR)))
    guest = Guest(server, loads, through=through)
    figures["event"].append(1000 * statistics.median(guest.first_event() for _ in range(EVENTS)))
    figures["open event"].append(1000 * statistics.median(guest.first_event_when_open() for _ in range(EVENTS)))


def timed[T](work: Callable[[T], object], on: T, count: int) -> list[float]:
    """Return what each call took, in milliseconds."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        work(on)
        found.append(1000 * (time.perf_counter() - began))
    return found


def one_request(client: Client) -> None:
    with client.connection() as connection:
        client.request(connection, "GET /bytes/10")


def again(asking: tuple[ssl.SSLSocket, bytes]) -> None:
    connection, ask = asking
    connection.sendall(ask)
    read_answer(connection)


def crowd(client: Guest) -> float:
    """Return the requests per second on many connections, each of which asks again as soon as it was answered."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        connections = [stack.enter_context(client.connection()) for _ in range(CROWD)]
        for connection in connections:
            again((connection, client.ask))
            selector.register(connection, selectors.EVENT_READ)
        began, left = time.perf_counter(), CROWD_REQUESTS - len(connections)
        for connection in connections:
            connection.sendall(client.ask)
        answered = 0
        while answered < CROWD_REQUESTS:
            for key, _ in selector.select(60):
                read_answer(key.fileobj)  # type: ignore[arg-type] # as registered
                answered += 1
                if left:
                    left -= 1
                    key.fileobj.sendall(client.ask)  # type: ignore[union-attr] # as registered
        return CROWD_REQUESTS / (time.perf_counter() - began)


def idle_memory(server: Server, client: Client) -> float:
    """Return the memory that connections take which have asked once, in MB."""
    with contextlib.ExitStack() as stack:
        before = server.memory()
        for _ in range(IDLE):
            client.request(stack.enter_context(client.connection()), "GET /bytes/10")
        return server.memory() - before


def download(client: Client) -> float:
    with client.connection() as connection:
        began = time.perf_counter()
        client.request(connection, f"GET /bytes/{SIZE * MIB}")
        return SIZE / (time.perf_counter() - began)


def upload(client: Client) -> float:
    with client.connection() as connection:
        began = time.perf_counter()
        client.request(connection, "POST /up", b"x" * MIB, times=SIZE)
        return SIZE / (time.perf_counter() - began)
