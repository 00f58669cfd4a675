"""Ports at a terminal: what starts to listen is reported, and what is typed is opened and closed."""

import asyncio
import contextlib
import json
import os
import pty
import sys
from collections.abc import Iterator
from typing import override

import pytest

from agent_sandbox.features.ports import live_ports as module
from agent_sandbox.features.ports import reported
from agent_sandbox.features.ports.forward import Forward, Ports
from agent_sandbox.features.ports.live_ports import as_text, talk
from agent_sandbox.features.ports.relay import Relay
from agent_sandbox.host.command import Command

HOW = "type PORT or HERE:PORT to open one, -HERE to close it; Ctrl-C ends"


class Opened(Ports):
    """Ports that are only written down, each one above the wanted one."""

    def __init__(self) -> None:
        super().__init__(Relay(asyncio.StreamReader(), None, None))  # type: ignore[arg-type]
        self.known = {80: 80}

    @property
    @override
    def inside(self) -> set[int]:
        return {*self.known.values()}

    @override
    async def open(self, wanted: Forward) -> Forward:
        self.known[wanted.here + 1] = wanted.inside
        return Forward(here=wanted.here + 1, inside=wanted.inside)

    @override
    def close(self, here: int) -> bool:
        return self.known.pop(here, None) is not None


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal, in the foreground of which this process is: the end that types."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
        yield ours
        os.close(ours)


def listening(*ports: int) -> list[dict[str, object]]:
    return [{"port": port, "addresses": [], "command": f"serve\x1b\n{port}" if port < 9 else ""} for port in ports]


async def until(end: str, err: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    async with asyncio.timeout(20):
        while end not in "".join(err):
            err.append(capsys.readouterr().err)
            await asyncio.sleep(0.01)


def talked(
    capsys: pytest.CaptureFixture[str], terminal: int, *, reports: list[list[int]], types: str, until_: str
) -> list[str]:
    """Return what is printed, with these reports and this typed."""
    code = f"for one in {[json.dumps(listening(*one)) for one in reports]}: print(one, flush=True)\ninput()"
    watching = Command(argv=(sys.executable, "-c", code))

    async def main() -> str:
        err: list[str] = []
        talking = asyncio.create_task(talk(Opened(), watching=watching))
        await until(HOW, err, capsys)
        os.write(terminal, types.encode())
        await until(until_, err, capsys)
        talking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await talking
        return "".join(err)

    return asyncio.run(main()).splitlines()[1:]


def test_reports_each_new_listening_port_once_and_skips_open_ports(
    capsys: pytest.CaptureFixture[str], typed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported, "SECONDS", 0)
    said = talked(capsys, typed, reports=[[], [3, 80], [3, 80, 5000]], types="", until_="5000")
    assert said == ["3 listens in the sandbox: serve\\x1b 3", "5000 listens in the sandbox: another user's program"]


def test_a_report_of_many_ports_prints_a_few(capsys: pytest.CaptureFixture[str], typed: int) -> None:
    said = talked(capsys, typed, reports=[[*range(1, 8)]], types="", until_="more")
    assert [line.split()[0] for line in said] == ["1", "2", "3", "4", "5", "and"]
    assert said[-1] == "and 2 more: agent-sandbox ports"


def test_typed_ports_are_opened_and_closed(capsys: pytest.CaptureFixture[str], typed: int) -> None:
    said = talked(capsys, typed, reports=[], types="3000\n8080:3001\n-8081\n-1\nx\n", until_="not a TCP")
    assert [line for line in said if not line.startswith(("new ports", "  hint"))] == [
        "http://127.0.0.1:3001  port 3000 of the sandbox",
        "http://127.0.0.1:8081  port 3001 of the sandbox",
        "closed 8081",
        "error: 1: is not open on this machine",
        "error: x: is not a TCP port",
    ]


def test_nothing_is_read_while_another_program_has_the_terminal(
    capsys: pytest.CaptureFixture[str], typed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = iter([0, 0])
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: next(groups, os.getpgrp()))
    monkeypatch.setattr(module, "BACKGROUND_SECONDS", 0.01)
    said = talked(capsys, typed, reports=[], types="3000\n", until_="http")
    assert "http://127.0.0.1:3001  port 3000 of the sandbox" in said
    assert next(groups, None) is None


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (Forward(here=80, inside=80), ""),
        (Forward(here=81, inside=80, taken="127.0.0.1:80"), "; another program listens on 127.0.0.1:80"),
        (Forward(here=81, inside=80, taken="127.0.0.1:80", is_ours=True), "; this command listens on 127.0.0.1:80"),
        (
            Forward(here=80, inside=80, taken="[::1]:80"),
            "; another program listens on [::1]:80, so use 127.0.0.1 and not localhost",
        ),
    ],
)
def test_says_which_address_another_program_has(one: Forward, said: str) -> None:
    assert as_text(one) == f"http://127.0.0.1:{one.here}  port 80 of the sandbox{said}"
