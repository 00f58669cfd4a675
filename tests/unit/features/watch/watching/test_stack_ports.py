"""The ports of one stack, with programs of this machine in place of those in the agent container."""

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from agent_sandbox.features.ports import forward as forwarding
from agent_sandbox.features.ports import reported
from agent_sandbox.features.ports.forward import Forward
from agent_sandbox.features.stack.stack_list import without_directory
from agent_sandbox.features.watch.watching import stack_ports as module
from agent_sandbox.features.watch.watching.stack_ports import Inside, PortInside, StackPorts
from agent_sandbox.host.command import Command
from agent_sandbox.problems import UserError

RELAY = str(Path(forwarding.__file__).with_name("relay.py"))
NODE = {"port": 8080, "addresses": ["any"], "command": "/usr/bin/node server.js"}
PYTHON = {"port": 39215, "addresses": ["loopback"], "command": "python3"}


class Stack:
    """A stack whose agent container runs `code` instead of listeners.py, and relay.py itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
        self.agent: SimpleNamespace | None = SimpleNamespace(id="1", state="running", started=1)
        self.reports, self.looks = SimpleQueue[Inside](), SimpleQueue[str]()
        self.started: list[str] = []
        self.relay = RELAY
        monkeypatch.setattr(reported, "SECONDS", 0)
        monkeypatch.setattr(module, "driver", lambda: SimpleNamespace(observe=self.observe))
        monkeypatch.setattr(module, "listeners_in", lambda agent: self.step(agent.id, "-c", code))
        monkeypatch.setattr(module, "relay_in", lambda _: self.step("relay", "-I", self.relay))
        self.ports = StackPorts(without_directory("app-1"), self.reports.put, seconds=0.01)

    def observe(self, *_: str) -> tuple[SimpleNamespace, ...]:
        """Return the agent container."""
        self.looks.put("look")
        return (self.agent,) if self.agent else ()

    def step(self, what: str, *argv: str) -> Command:
        """Record the start of a program, and return it."""
        self.started.append(what)
        return Command(argv=(sys.executable, *argv))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow it in a thread."""
        thread = threading.Thread(target=self.ports.follow)
        thread.start()
        try:
            yield
        finally:
            self.ports.end()
            thread.join(60)
            assert not thread.is_alive()

    def until(self, wanted: Callable[[Inside], object]) -> Inside:
        """Return the first report that is wanted."""
        while not wanted(found := self.reports.get(timeout=60)):
            pass
        return found


def prints(*reports: object) -> str:
    return f"for one in {[json.dumps(one) for one in reports]}: print(one, flush=True)\ninput()"


def test_lists_the_newest_port_first_and_the_same_one_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(monkeypatch, prints([NODE, PYTHON], [PYTHON], [NODE, PYTHON]))
    with stack.followed():
        shown = [[(one.port, one.program) for one in stack.reports.get(timeout=60).ports] for _ in range(3)]
    node, python = (8080, "node"), (39215, "python3")
    assert shown == [[python, node], [python], [node, python]]


def test_a_port_is_opened_and_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        inside = server.getsockname()[1]
        stack = Stack(monkeypatch, prints([NODE | {"port": inside}]))
        with stack.followed():
            stack.until(lambda found: found.ports)
            stack.ports.open(Forward(here=inside, inside=inside))
            (one,) = stack.until(lambda found: found.note).ports
            assert inside < one.here <= inside + forwarding.ATTEMPTS  # the server has the port itself
            with socket.create_connection(("127.0.0.1", one.here), timeout=60):
                server.accept()[0].close()
            stack.ports.close(one.here)
            said = stack.until(lambda found: found.note)
            assert (said.note, said.ports[0].here) == (f"closed {one.here}", 0)
            stack.ports.close(one.here)
            assert stack.until(lambda found: found.note).note == f"{one.here}: is not open on this machine"
            stack.ports.open(Forward(here=0, inside=inside))
            open_again = stack.until(lambda found: found.note).ports[0].here
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", open_again), timeout=60)
    assert stack.started == ["1", "relay"]


def test_an_open_port_stays_in_the_list_while_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(monkeypatch, prints([]))
    with stack.followed():
        stack.until(lambda _: True)
        stack.ports.open(Forward(here=0, inside=1))
        (one,) = stack.until(lambda found: found.ports).ports
        assert one == PortInside(port=1, here=one.here)
        with suppress(ConnectionResetError), socket.create_connection(("127.0.0.1", one.here), timeout=60) as client:
            assert client.recv(1) == b""
        assert (
            stack.until(lambda found: found.note.startswith("nothing")).note
            == "nothing listens on port 1 of the sandbox"
        )


def test_refused_connections_do_not_flood_the_user_with_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSED_SECONDS", 1e9)
    stack = Stack(monkeypatch, prints([]))
    with stack.followed():
        stack.until(lambda _: True)
        stack.ports.open(Forward(here=0, inside=1))
        (one,) = stack.until(lambda found: found.ports).ports

        def connect() -> None:
            with (
                suppress(ConnectionResetError),
                socket.create_connection(("127.0.0.1", one.here), timeout=60) as client,
            ):
                client.recv(1)

        connect()
        assert stack.until(lambda found: found.note).note == "nothing listens on port 1 of the sandbox"
        connect()
        connect()
        stack.ports.close(one.here)
        assert stack.until(lambda found: found.note).note == f"closed {one.here}"


def test_says_why_no_port_is_open_any_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stack = Stack(monkeypatch, prints([NODE]))
    forged = tmp_path / "relay.py"
    forged.write_text("import sys\nsys.stderr.write('\\x1b[2Jgone'); sys.stdin.buffer.read(1)")
    stack.relay = str(forged)
    ended = "the sandbox ended the relay, so no port of it is open"
    with stack.followed():
        stack.until(lambda found: found.ports)
        stack.ports.open(Forward(here=0, inside=8080))
        (one,) = stack.until(lambda found: found.note).ports
        with suppress(ConnectionResetError), socket.create_connection(("127.0.0.1", one.here), timeout=60) as client:
            client.recv(1)
        said = stack.until(lambda found: found.note.startswith(ended))
        assert (said.note, said.ports[0].here) == (f"{ended}: \\x1b[2Jgone", 0)
        forged.write_text("print('x' * 99)")
        stack.ports.open(Forward(here=0, inside=8080))
        assert stack.until(lambda found: "broke the protocol" in found.note).note.startswith("ports: the relay")


def test_starts_once_for_each_start_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(monkeypatch, prints([NODE])[: -len("input()")])
    agent, stack.agent = stack.agent, None
    with stack.followed():
        stack.looks.get(timeout=60)
        with pytest.raises(
            UserError, match="app-1: its ports cannot be opened now, because the sandbox is not running"
        ):
            stack.ports.open(Forward(here=0, inside=1))
        for state in ("exited", "running"):
            stack.agent = SimpleNamespace(id="1", state=state, started=1)
            stack.looks.get(timeout=60)
        assert [len(stack.reports.get(timeout=60).ports) for _ in range(2)] == [1, 0]
        for _ in range(3):
            stack.looks.get(timeout=60)
        assert stack.started == ["1"]
        stack.agent = SimpleNamespace(id="2", state="running", started=2)
        assert [len(stack.reports.get(timeout=60).ports) for _ in range(2)] == [1, 0]
    assert (agent is None, stack.started) == (False, ["1", "2"])


def test_a_forged_report_is_short_and_printable_and_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """import json
one = {"addresses": [], "command": "\\x1b[2J\\u202e" * 2}
many = [one | {"port": port} for port in range(1, 3_000)]
print(json.dumps([one | {"port": 3_000, "command": "y" * 9_999}, *many]), flush=True)
input()"""
    stack = Stack(monkeypatch, code)
    with stack.followed():
        found = stack.reports.get(timeout=60)
    assert (len(found.ports), found.more, found.note) == (5, module.MOST_KEPT - 5, "")
    assert all(one.here == 0 and len(one.command) <= 200 and one.command.isascii() for one in found.ports)
    assert all(one.command.isprintable() and len(one.program) <= 16 for one in found.ports)
    assert stack.started == ["1"]
