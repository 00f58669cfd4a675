"""A person who watches: the connection of `agent-sandbox watch` to the control socket, and the answers to questions."""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self, override

from agent_sandbox.features.policy.layer_rule import RuleLayer
from agent_sandbox.features.ports.forward import Forward
from agent_sandbox.features.proxy.reports import Question
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.features.watch.watching.stack_ports import StackPorts
from agent_sandbox.problems import Problem, UserError


def await_threads(*names: str) -> None:
    """Wait for the threads whose functions have these names: they use files of the test."""
    end = time.monotonic() + 60
    ends = tuple(f"({name})" for name in names)
    while left := [one.name for one in threading.enumerate() if one.name.endswith(ends)]:
        assert time.monotonic() < end, left
        time.sleep(0.01)


class Person:
    """A watcher that receives the proxy's reports, and answers."""

    def __init__(self, control: str, *, answers: bool = True, asks: bool = False) -> None:
        self._path = control
        self._answers, self._asks = answers, asks
        self.state: dict[str, Any] = {"questions": [], "grants": []}
        self.records: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        """Subscribe, and wait for the first state."""
        self.control = socket.socket(socket.AF_UNIX)
        self.control.settimeout(60)
        self.control.connect(self._path)
        self._lines = self.control.makefile("rb")
        self.say(verb="subscribe", answers=self._answers, asks=self._asks)
        self.read()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self._lines.close()
        self.control.close()

    def say(self, **words: object) -> None:
        """Send one line."""
        self.control.sendall(json.dumps(words).encode() + b"\n")

    def read(self) -> None:
        """Take in one line."""
        line = json.loads(self._lines.readline())
        if "state" in line:
            self.state = line["state"]
        elif "record" in line:
            self.records.append(line["record"])
        else:
            self.replies.append(line)

    def until(self, wanted: Callable[[], object], *, seconds: float = 60.0) -> None:
        """Read until something is so."""
        end = time.monotonic() + seconds
        while not wanted():
            assert time.monotonic() < end, (self.state, self.replies)
            self.read()

    def questions(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many are open; return them."""
        self.until(lambda: len(self.state["questions"]) == count)
        return [*self.state["questions"]]

    def answer(self, number: int, scope: str, **more: object) -> dict[str, Any]:
        """Answer a question; return the proxy's reply."""
        self.say(verb="answer", id=number, scope=scope, who="ana", **more)
        before = len(self.replies)
        self.until(lambda: len(self.replies) > before)
        reply: dict[str, Any] = self.replies[-1]["answer"]
        return reply


class RecordedPorts(StackPorts):
    """Ports that are only written down."""

    def __init__(self, given: list[tuple[object, ...]]) -> None:
        self._given = given

    @override
    def open(self, wanted: Forward) -> None:
        """Record the ports of this machine and of the sandbox."""
        self._given.append(("open", wanted.here, wanted.inside))

    @override
    def close(self, here: int) -> None:
        """Record the port of this machine."""
        self._given.append(("close", here))

    @override
    def follow(self) -> None:
        """Report nothing."""

    @override
    def end(self) -> None:
        """Leave it."""


class Answers(Connection):
    """A connection that records the answers, and is closed when question 99 is answered."""

    def __init__(self) -> None:
        self.given: list[tuple[object, ...]] = []
        self.ports = RecordedPorts(self.given)

    @override
    def answer(self, number: int, scope: str, *, seconds: int | None = None) -> None:
        """Record an answer."""
        if number == 99:
            raise UserError([Problem(where="app-1", what="the connection to the proxy is closed")])
        self.given.append((number, scope, seconds))

    @override
    def write_rule(self, rule: str, layer: RuleLayer) -> None:
        """Record the rule; print as the command does."""
        self.given.append((rule, layer))
        print("policy.yaml:3: added")

    @override
    def allow_in(self, layer: RuleLayer, question: Question) -> None:
        """Record an answer, and whether stdin is a terminal; print as the command does."""
        self.given.append((question.id, question.rule, layer, sys.stdin.isatty()))
        print("policy.yaml:3: added")
