"""The relay of `agent-sandbox ports` beside a direct connection: latency, throughput, processor time."""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.features.ports import relay
from benchmarks.servers import LAB, Server, process
from benchmarks.table import Ratio, Row

sys.path.insert(0, str(LAB))

from engine import engine_answers, proxy_image  # found just above

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROUNDS = 5
ECHOES, REQUESTS = 500, 2000
SIZE = 200 * 1024 * 1024
BLOCK = bytes(1 << 20)
IDLE_SECONDS = 2.0
RELAY = Path(relay.__file__).read_text("utf-8")
# The first byte that a client sends says what it wants: an echo, SIZE bytes, to send SIZE bytes, or one answer.
SERVER = f"""
import socket, sys, threading
def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        wanted = connection.recv(1)
        if wanted == b"e":
            while data := connection.recv(65536):
                connection.sendall(data)
        elif wanted == b"d":
            for _ in range({SIZE >> 20}):
                connection.sendall(bytes(1 << 20))
        elif wanted == b"u":
            got, buffer = 0, bytearray(1 << 20)
            while got < {SIZE}:
                got += connection.recv_into(buffer)
            connection.sendall(b"x")
        else:
            connection.recv(1000)
            connection.sendall(b"x" * 1000)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
HOST_SIDE = """
import asyncio, json, sys
from pathlib import Path
from agent_sandbox.features.ports.forward import Forward, forward
argv, port = json.loads(sys.argv[1]), int(sys.argv[2])
asyncio.run(forward(argv, Path("/"), [Forward(here=0, inside=port)], opened=lambda one: print(one.here, flush=True)))
"""
PORT_IN_CONTAINER = 4000


def echo(port: int) -> float:
    """Return the median milliseconds of an echo on an open connection."""
    took = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"e")
        for _ in range(ECHOES):
            start = time.perf_counter()
            connection.sendall(b"ping" * 16)
            connection.recv(100)
            took.append(time.perf_counter() - start)
    return 1000 * statistics.median(took)


def request(port: int) -> float:
    """Return the milliseconds of one request on a new connection."""
    start = time.perf_counter()
    for _ in range(REQUESTS):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while connection.recv(65536):
                pass
    return 1000 * (time.perf_counter() - start) / REQUESTS


def down(port: int) -> float:
    """Return the MB/s of a download."""
    buffer = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        start = time.perf_counter()
        connection.sendall(b"d")
        while connection.recv_into(buffer):
            pass
        return SIZE / 1e6 / (time.perf_counter() - start)


def up(port: int) -> float:
    """Return the MB/s of an upload."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        start = time.perf_counter()
        connection.sendall(b"u")
        for _ in range(SIZE >> 20):
            connection.sendall(BLOCK)
        connection.recv(1)
        return SIZE / 1e6 / (time.perf_counter() - start)


@contextlib.contextmanager
def listening(*argv: str) -> Iterator[tuple[int, int]]:
    """Run a program that prints the port it listens on; yield its process and the port."""
    with process(*argv) as running:
        assert running.stdout is not None  # noqa: S101
        yield running.pid, int(running.stdout.readline())


def relayed(box: Sequence[str], port: int) -> contextlib.AbstractContextManager[tuple[int, int]]:
    """Run the relay with the Python `box` as its other side; yield the process on this machine and its port."""
    return listening(sys.executable, "-P", "-c", HOST_SIDE, json.dumps([*box, "-I", "-c", RELAY]), str(port))


@contextlib.contextmanager
def contained() -> Iterator[tuple[str, ...]]:
    """Run the server in a container without a network; yield the command that runs its Python."""
    argv = ("docker", "run", "--rm", "--detach", "--network=none", "--entrypoint=python3", proxy_image())
    done = subprocess.run((*argv, "-I", "-c", SERVER, str(PORT_IN_CONTAINER)), check=True, capture_output=True)
    name = done.stdout.decode().strip()
    try:
        yield ("docker", "exec", "--interactive", name, "python3")
    finally:
        subprocess.run(("docker", "rm", "--force", name), check=True, capture_output=True)


def cpu(*pids: int) -> float:
    """Return the milliseconds of processor time that processes have used so far."""
    return 1000 * sum(Server(pid=one, port=0, ca=Path(), started_in=0).cpu() for one in pids)


def child_of(pid: int) -> int:
    """Return the only child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def rows() -> list[Row]:
    """Measure the relay between two processes, and through an engine if one answers."""
    figures: defaultdict[str, list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        _, direct = stack.enter_context(listening(sys.executable, "-I", "-c", SERVER, "0"))
        pid, port = stack.enter_context(relayed((sys.executable,), direct))
        places = {"direct": direct, "relay": port}
        if engine_answers():
            places["engine"] = stack.enter_context(relayed(stack.enter_context(contained()), PORT_IN_CONTAINER))[1]
        else:
            print("left out: ports through an engine, since none answers here", file=sys.stderr)
        echo(port)
        both = (pid, child_of(pid))
        for _ in range(ROUNDS):
            for name, place in places.items():
                for figure in (echo, request, down, up):
                    before = cpu(*both)
                    figures[f"{name} {figure.__name__}"].append(figure(place))
                    figures[f"cpu {name} {figure.__name__}"].append(cpu(*both) - before)
        with socket.create_connection(("127.0.0.1", port)) as idle:
            idle.sendall(b"ex")
            idle.recv(1)
            time.sleep(0.2)
            before = cpu(*both)
            time.sleep(IDLE_SECONDS)
            figures["idle"].append((cpu(*both) - before) / IDLE_SECONDS)
    return _rows(figures)


def _rows(figures: defaultdict[str, list[float]]) -> list[Row]:
    found = [
        Row(figure="CPU for 200 MB down, both sides of the relay", unit="ms", ours=figures["cpu relay down"]),
        Row(figure="CPU for 200 MB up, both sides of the relay", unit="ms", ours=figures["cpu relay up"]),
        Row(
            figure="CPU per request on a new connection, both sides of the relay",
            unit="ms",
            ours=[one / REQUESTS for one in figures["cpu relay request"]],
        ),
        Row(figure="CPU per second with an idle connection", unit="ms", ours=figures["idle"], goal="0"),
    ]
    for name, place in (("relay", "two processes"), ("engine", "`docker exec`")):
        for figure, title, unit, ratio, goal in (
            ("echo", "echo", "ms", Ratio.MORE, "1 ms more"),
            ("request", "request on a new connection", "ms", Ratio.MORE, "1 ms more"),
            ("down", "download", "MB/s", Ratio.COST, ">= 500 MB/s"),
            ("up", "upload", "MB/s", Ratio.COST, ">= 500 MB/s"),
        ):
            if ours := figures[f"{name} {figure}"]:
                other = figures[f"direct {figure}"]
                row = Row(
                    figure=f"{title}, {place}",
                    unit=unit,
                    ours=ours,
                    other=other,
                    beside="direct",
                    ratio=ratio,
                    goal=goal,
                )
                found.append(row)
    return found
