"""`agent-sandbox watch` and `agent-sandbox ui` as processes of their own, with somebody who looks and types.

They run as users have them, except that the command in the proxy container is a local process.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import subprocess
import sys
import termios
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, override
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 60.0
TERMINAL = (24, 80)
# What comes before either program: the connection starts the proxy's own command here.
LOCAL = """
import sys
from pathlib import Path
from types import SimpleNamespace
from agent_sandbox.engines.plan import RunCommand
from agent_sandbox.project.project import Project
from agent_sandbox.features.watch.watching import connection
from agent_sandbox.host import process
from agent_sandbox.stack.recorded import Owner

def plan(project, verb):
    proxy = (sys.executable, "-P", "-m", "agent_sandbox.proxy", "watch", "--control", sys.argv[1])
    return [RunCommand(argv=(*proxy, *verb.argv[1:]), cwd=project.root, project=project.name, purpose="")]

def watch(step, **more):
    return process.watch(step.argv, cwd=step.cwd, **more)

connection.backend = lambda: SimpleNamespace(plan=plan)
connection.driver = lambda: SimpleNamespace(watch=watch)
connection.require_running = lambda *_: None
bench = Project(root=Path.cwd(), name="bench", agents=(), owner=Owner(), images=(), files=())
"""
WATCH = f"""{LOCAL}
from importlib import import_module
import_module("agent_sandbox.features.watch.commands.watch")._on_screen([bench], lambda: [bench], asks=True)
"""
UI = f"""{LOCAL}
from agent_sandbox.features.watch.page.serving import serve
serve([bench], lambda: [bench], asks=True, on_address=lambda address: print(address, flush=True), again=sys.stdin)
"""


def local(program: str, control: Path) -> tuple[str, ...]:
    """Return the command of WATCH or UI for a proxy on this machine."""
    return (sys.executable, "-P", "-c", program, str(control))


@dataclass(kw_only=True)
class Screen(ABC):
    """What a program shows, as a person would see it: when a text was on the screen for the first time."""

    pid: int
    said: bytes = b""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def shown(self, text: bytes) -> float:
        """Wait for a text; return when it came."""
        with self.changed:
            if not self.changed.wait_for(lambda: text in self.said, SECONDS):
                raise TimeoutError(f"{text!r} was not shown; the last was {self.said[-2_000:]!r}")
            return time.time()

    @abstractmethod
    def allow(self, path: str) -> float:
        """Allow the request to this path, which is shown, once; return when."""

    def came(self, data: bytes) -> None:
        """Take in what the program writes; the last of it is enough."""
        with self.changed:
            self.said = (self.said + data)[-1_000_000:]
            self.changed.notify_all()

    def memory(self) -> float:
        """Return the resident memory, in MB."""
        lines = Path(f"/proc/{self.pid}/status").read_text("utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@dataclass(kw_only=True)
class Terminal(Screen):
    """`watch` on a terminal."""

    leader: int

    @override
    def allow(self, path: str) -> float:
        return self.press("a")

    def press(self, key: str) -> float:
        """Press a key; return when."""
        os.write(self.leader, key.encode())
        return time.time()

    def read(self) -> None:
        """Read until the program ends."""
        with contextlib.suppress(OSError):
            while data := os.read(self.leader, 65_536):
                self.came(data)


@contextlib.contextmanager
def terminal(*argv: str, cwd: Path) -> Iterator[Terminal]:
    """Run a program on a terminal of 80 columns, until the block ends."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, TERMINAL)
    environ = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(argv, cwd=cwd, env=environ, stdin=follower, stdout=follower, stderr=follower) as running:
        os.close(follower)
        screen = Terminal(pid=running.pid, leader=leader)
        threading.Thread(target=screen.read, daemon=True).start()
        try:
            yield screen
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                screen.press("q")
                running.wait(10)
            running.kill()
    os.close(leader)


@contextlib.contextmanager
def watch(*argv: str, cwd: Path) -> Iterator[Terminal]:
    """Run `watch --ask` by this command; it is connected."""
    with terminal(*argv, cwd=cwd) as screen:
        screen.shown(b"unlisted")
        yield screen


@dataclass(kw_only=True)
class Page(Screen):
    """The page of `ui`, as far as its server is concerned: what a browser reads and sends."""

    address: str
    headers: dict[str, str]

    @override
    def allow(self, path: str) -> float:
        with self.changed:
            news = next(line for line in reversed(self.said.split(b"\n")) if path.encode() in line)
        (stack,) = json.loads(news.removeprefix(b"data: "))["stacks"]
        questions = (one for group in stack["groups"] for one in group["questions"])
        asked = next(one for one in questions if one["request"].endswith(path))
        pressed, where = time.time(), urlsplit(self.address)
        client = http.client.HTTPConnection(where.netloc)
        answer = json.dumps({"stack": stack["name"], "id": asked["id"], "request": asked["request"], "word": "once"})
        client.request("POST", "/api/answer", answer, {"Origin": f"http://{where.netloc}", **self.headers})
        if (status := client.getresponse().status) != http.HTTPStatus.NO_CONTENT:
            raise ConnectionError(f"the answer got {status}")
        return pressed

    def read(self) -> None:
        """Read the news until the server ends."""
        where = urlsplit(self.address)
        with contextlib.suppress(OSError, http.client.HTTPException):
            client = http.client.HTTPConnection(where.netloc)
            client.request("GET", "/api/news?after=0", headers=self.headers)
            answer = client.getresponse()
            while line := answer.readline():
                if b'"groups"' in line:  # the questions; a flood of other news would push them out of what is kept
                    self.came(line)


def begun(address: str) -> dict[str, str]:
    """Return the headers of a new session."""
    where = urlsplit(address)
    client = http.client.HTTPConnection(where.netloc)
    token = json.dumps({"token": where.fragment})
    client.request("POST", "/api/session", token, {"Origin": f"http://{where.netloc}"})
    answer = client.getresponse()
    cookie, key = str(answer.headers["set-cookie"]).partition(";")[0], json.loads(answer.read())["key"]
    return {"Cookie": cookie, "Agent-Sandbox-Key": key}


@contextlib.contextmanager
def page(*argv: str, cwd: Path) -> Iterator[Page]:
    """Run `ui --ask` by this command, with one open page; it is connected."""
    with subprocess.Popen(argv, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None  # noqa: S101
        address = running.stdout.readline().strip()
        found = Page(pid=running.pid, address=address, headers=begun(address))
        threading.Thread(target=found.read, daemon=True).start()
        found.shown(b"unlisted")
        try:
            yield found
        finally:
            running.terminate()
