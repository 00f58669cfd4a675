"""A flood of denials while `watch` and `ui` are open: what it costs, and how soon a person is asked and answered."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.client import Client
from benchmarks.screens import UI, WATCH, Screen, local, page, watch
from benchmarks.servers import Server, ours, upstream
from benchmarks.stack import started_project
from benchmarks.table import Ratio, Row

if TYPE_CHECKING:
    from real_stacks import Project

ROUNDS = 5
SECONDS = 4.0
WARM_SECONDS = 8.0  # until the proxy has read the services, for the hints in denials
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

SIZES = count(10_000)  # response sizes; each is used once, so that no two requests share a path

Figures = defaultdict[str, list[float]]
# Sends a request for a path that waits for a person; returns when it was sent, and when its response came.
Ask = Callable[[str], tuple[float, float]]


def started_flood(server: Server, seconds: float) -> subprocess.Popen[str]:
    """Start a flood."""
    argv = (sys.executable, "-P", "-c", FLOOD, str(server.port), str(seconds))
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def flood(server: Server, figures: Figures, name: str) -> None:
    """Note the proxy's CPU for a denial, in ms, and the denials in a second."""
    before = server.cpu()
    denials = int(started_flood(server, SECONDS).communicate()[0])
    figures[name].append(1000 * (server.cpu() - before) / denials)
    figures["rate"].append(denials / SECONDS)


def answered(ask: Ask, screen: Screen, path: str) -> tuple[float, float]:
    """Allow one request; return the ms until it was on the screen, and from the answer to the response."""
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, path)
        shown = screen.shown(path.encode())
        time.sleep(SETTLED)
        pressed = screen.allow(path)
        begin, end = asking.result(60)
    return 1000 * (shown - begin), 1000 * (end - pressed)


def asked_here(server: Server, path: str) -> tuple[float, float]:
    """Send a request through the proxy; return when it was sent, and when its response came."""
    client = Client(server)
    with client.connection() as connection:
        begin = time.time()
        client.request(connection, f"GET {path}")
        return begin, time.time()


def asked_inside(project: Project, path: str) -> tuple[float, float]:
    """Send a request from the agent's container, with curl; return the same times."""
    url = f"http://denied.test{path}"
    script = f"date +%s.%N; curl --fail --silent --output /dev/null {url} && date +%s.%N"
    begin, end = project.exec("sh", "-c", script).stdout.split()
    return float(begin), float(end)


def measure(server: Server, control: Path, figures: Figures) -> None:
    """Add one round: a flood that nobody watches, the same with both open, and answers to a person's key."""
    flood(server, figures, "alone")
    with ExitStack() as both:
        screen = both.enter_context(watch(*local(WATCH, control), cwd=control.parent))
        opened = both.enter_context(page(*local(UI, control), cwd=control.parent))
        flood(server, figures, "warm")
        memory = (server.memory, screen.memory, opened.memory)
        before = [measured() for measured in memory]
        flood(server, figures, "watched")
        for name, measured, then in zip(WHO, memory, before, strict=True):
            figures[f"growth of {name}"].append(measured() - then)
        time.sleep(1)
        ask, screens = partial(asked_here, server), {"watch": screen, "ui": opened}
        note(figures, "quiet", ask, screens)
        with started_flood(server, 60) as flooding:
            time.sleep(1)
            note(figures, "flooded", ask, screens)
            flooding.terminate()


def note(figures: Figures, when: str, ask: Ask, screens: Mapping[str, Screen]) -> None:
    """Note both times of a request that is answered with each program."""
    for who, screen in screens.items():
        times = figures[f"{when} {who} shown"], figures[f"{when} {who} answered"]
        path = f"/bytes/{next(SIZES)}"
        for found, one in zip(times, answered(ask, screen, path), strict=True):
            found.append(one)


def on_engine(figures: Figures) -> None:
    """Note the times of requests from the agent's container of a real stack."""
    command = (sys.executable, "-P", "-m", "agent_sandbox")
    with started_project("questions on an engine") as project, ExitStack() as both:
        if project is None:
            return
        screens = {
            "watch": both.enter_context(watch(*command, "watch", "--ask", cwd=project.path)),
            "ui": both.enter_context(page(*command, "ui", "--ask", cwd=project.path)),
        }
        for _ in range(ROUNDS):
            note(figures, "engine", partial(asked_inside, project), screens)


WHO = ("proxy", "watch", "ui")
TIMES = (
    ("quiet", "", "<= 300 ms"),
    ("flooded", ", during a flood", "<= 1000 ms"),
    ("engine", ", on an engine", "<= 300 ms"),
)


def rows() -> list[Row]:
    """Measure on loopback, and the times also on a real engine, if one answers."""
    figures: Figures = defaultdict(list)
    with (
        tempfile.TemporaryDirectory() as name,
        upstream(Path(name)) as port,
        ours(Path(name), port, entry="other.test", more=POLICY) as server,
    ):
        time.sleep(WARM_SECONDS)
        flood(server, figures, "warm")
        for _ in range(ROUNDS):
            measure(server, Path(name) / "state" / "run" / "control.sock", figures)
    on_engine(figures)
    times = [
        Row(figure=f"`{who}`: {what}{when}", unit="ms", ours=found, goal=goal)
        for name, when, goal in TIMES
        for who in ("watch", "ui")
        for which, what in (("shown", "request to question"), ("answered", "answer to response"))
        if (found := figures[f"{name} {who} {which}"])
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
