"""A flood of denials while `watch` and `ui` are open: what it costs, and whether a person's answer still arrives."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.client import Client
from benchmarks.screens import page, watch
from benchmarks.servers import Server, ours, upstream
from benchmarks.table import Ratio, Row

if TYPE_CHECKING:
    from benchmarks.screens import Terminal

ROUNDS = 5
SECONDS = 4.0
# Longer than `watch` refuses keys for a question that has just appeared.
SETTLED = 1.0
POLICY = """\
deny: ["*.flood.test"]
"""
# As fast as the proxy can: several kept-alive connections, and the next request as soon as the last was denied.
FLOOD = """
import socket, sys, threading, time
port, seconds, sent = int(sys.argv[1]), float(sys.argv[2]), []

def ask(name):
    end, count = time.monotonic() + seconds, 0
    stream = socket.create_connection(("127.0.0.1", port))
    with stream, stream.makefile("rb") as answers:
        while time.monotonic() < end:
            head = f"GET http://{name}.flood.test/{count} HTTP/1.1\\r\\nHost: {name}.flood.test\\r\\n\\r\\n"
            stream.sendall(head.encode())
            length = 0
            while (line := answers.readline()) != b"\\r\\n":
                if line.lower().startswith(b"content-length"):
                    length = int(line.split(b":")[1])
            answers.read(length)
            count += 1
    sent.append(count)

threads = [threading.Thread(target=ask, args=(f"n{number}",)) for number in range(8)]
for one in threads: one.start()
for one in threads: one.join()
print(sum(sent))
"""

Figures = defaultdict[str, list[float]]


def started_flood(server: Server, seconds: float) -> subprocess.Popen[str]:
    """Start a flood."""
    argv = (sys.executable, "-P", "-c", FLOOD, str(server.port), str(seconds))
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def flood(server: Server, figures: Figures, name: str) -> None:
    """Note the proxy's CPU for a denial, in ms, and the denials in a second."""
    before = server.cpu()
    count = int(started_flood(server, SECONDS).communicate()[0])
    figures[name].append(1000 * (server.cpu() - before) / count)
    figures["rate"].append(count / SECONDS)


def answered(server: Server, screen: Terminal, path: str) -> tuple[float, float]:
    """Allow one request with a key; return the ms until it was on the screen, and from the key to its response."""
    done: list[float] = []

    def ask() -> None:
        client = Client(server)
        with client.connection() as connection:
            begin.append(time.time())
            client.request(connection, f"GET {path}")
            done.append(time.time())

    begin: list[float] = []
    asking = threading.Thread(target=ask)
    asking.start()
    shown = screen.shown(path.encode())
    time.sleep(SETTLED)
    pressed = screen.press("a")
    asking.join(60)
    return 1000 * (shown - begin[0]), 1000 * (done[0] - pressed)


def measure(server: Server, control: Path, figures: Figures) -> None:
    """Add one round: a flood that nobody watches, the same with both open, and answers to a person's key."""
    flood(server, figures, "alone")
    with ExitStack() as both:
        screen, opened = both.enter_context(watch(control)), both.enter_context(page(control))
        flood(server, figures, "warm")
        memory = (server.memory, screen.memory, opened.memory)
        before = [measured() for measured in memory]
        flood(server, figures, "watched")
        for name, measured, then in zip(WHO, memory, before, strict=True):
            figures[f"growth of {name}"].append(measured() - then)
        time.sleep(1)
        paths = [f"/bytes/{10 * turn + len(figures['watched'])}" for turn in (1_000, 2_000)]
        note(figures, "quiet", answered(server, screen, paths[0]))
        with started_flood(server, 60) as flooding:
            time.sleep(1)
            note(figures, "flooded", answered(server, screen, paths[1]))
            flooding.terminate()


def note(figures: Figures, name: str, took: tuple[float, float]) -> None:
    """Note both times of an answered request."""
    for which, one in zip(("shown", "forwarded"), took, strict=True):
        figures[f"{name} {which}"].append(one)


WHO = ("proxy", "watch", "ui")
TIMES = (
    ("quiet", "", "<= 300 ms"),
    ("flooded", ", during a flood", "<= 1000 ms"),
)


def rows() -> list[Row]:
    """Measure on loopback."""
    figures: Figures = defaultdict(list)
    with (
        tempfile.TemporaryDirectory() as name,
        upstream(Path(name)) as port,
        ours(Path(name), port, entry="other.test", more=POLICY) as server,
    ):
        flood(server, figures, "warm")
        for _ in range(ROUNDS):
            measure(server, Path(name) / "state" / "run" / "control.sock", figures)
    times = [
        Row(figure=f"{what}{when}", unit="ms", ours=figures[f"{name} {which}"], goal=goal)
        for name, when, goal in TIMES
        for which, what in (("shown", "request to question on the screen"), ("forwarded", "key to response"))
    ]
    return [
        Row(figure="denials in a second, as fast as one client gets them", unit="/s", ours=figures["rate"]),
        Row(
            figure="CPU per denial, with `watch` and `ui` open",
            unit="ms",
            ours=figures["watched"],
            other=figures["alone"],
            beside="with neither",
            goal="1.1x",
            ratio=Ratio.COST,
        ),
        *(
            Row(
                figure=f"memory growth of {one} in a flood",
                unit="MB",
                ours=figures[f"growth of {one}"],
                goal="<= 10 MB",
            )
            for one in WHO
        ),
        *times,
    ]
