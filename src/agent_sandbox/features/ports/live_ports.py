"""Ports at a terminal: report what starts to listen in the sandbox, and open and close what the user types."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from agent_sandbox.cli.terminal.output import say, say_problems
from agent_sandbox.engines.place import Place
from agent_sandbox.features.ports import forward as forwarding
from agent_sandbox.features.ports.forward import ADDRESS, Forward, Ports
from agent_sandbox.features.ports.reported import watch_reports
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.host.command import Command
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.ports import parse_port

FOLDER = Path(forwarding.__file__).parent
PYTHON = ("python3", "-I", "-c")
HOW = "type PORT or HERE:PORT to open one, -HERE to close it; Ctrl-C ends"
# Of one report, which the agent may have forged.
MOST = 5
LONGEST_LINE = 200
BACKGROUND_SECONDS = 1.0
BESIDE = re.compile(r"(\d+):([a-z][a-z0-9-]*):(\d+)", re.ASCII)


def parsed_port(text: str) -> Forward:
    """Return what `PORT`, `HERE:PORT` or `HERE:SERVICE:PORT` means; raise UserError if it is none of them."""
    beside = BESIDE.fullmatch(text)
    found = parse_port(f"{beside[1]}:{beside[3]}" if beside else text)
    if not found:
        hint = "write a port, as in 3000, or PORT_HERE:PORT_INSIDE, as in 8080:3000; for a service, 5432:db:5432"
        raise UserError([Problem(where=text, what="is not a TCP port", hint=hint)])
    return Forward(here=found[0], inside=found[1], service=beside[2] if beside else "")


def refused(one: Forward) -> None:
    """Print that a connection to a port of the sandbox was not answered."""
    say(f"nothing listens on {one.where}")


def report(one: Forward) -> None:
    """Print where a port of the sandbox is open."""
    address, _, rest = as_text(one).partition(" ")
    say((address, "command"), f" {rest}")


def as_text(one: Forward) -> str:
    """Return where a port of the sandbox is open, and what was in use."""
    text = f"{'' if one.service else 'http://'}{ADDRESS}:{one.here}  {one.where}"
    if not one.taken:
        return text
    who = "this command" if one.is_ours else "another program"
    instead = ", so use 127.0.0.1 and not localhost" if one.taken.endswith(f"]:{one.here}") else ""
    return f"{text}; {who} listens on {one.taken}{instead}"


def relay_in(agent: Place) -> Command:
    """Return the command that runs the relay's side in the sandbox."""
    return driver().spawn(agent, *PYTHON, code_of("relay.py"), stdin=True)


def listeners_in(agent: Place) -> Command:
    """Return the command that reports what listens in the sandbox, now and whenever it changes."""
    return driver().spawn(agent, *PYTHON, code_of("listeners.py"), "watch", stdin=True)


def code_of(name: str) -> str:
    """Return the text of a program that runs in the sandbox."""
    return (FOLDER / name).read_text("utf-8")


async def talk(ports: Ports, *, watching: Command) -> None:
    """Report new ports, and do what the user types, until cancelled. `watching` runs listeners.py in the sandbox."""
    say(HOW)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_offer(ports, watching))
        tasks.create_task(_obey(ports))


async def _offer(ports: Ports, watching: Command) -> None:
    known: set[int] = set()
    async for found in watch_reports(watching):
        new = [one for one in found if one.port not in known | ports.inside]
        known = {one.port for one in found}
        for line in offers([(one.port, printable(one.command)) for one in new]):
            say(line)
    say("watching for new ports has ended; agent-sandbox ports lists them")


def offers(new: Sequence[tuple[int, str]], more: int = 0) -> list[str]:
    """Return a line for each of these ports with the commands that listen, and one for those that are too many."""
    lines = [f"{port} listens in the sandbox: {command or "another user's program"}" for port, command in new[:MOST]]
    more += len(new) - len(lines)
    return [*lines, f"and {more} more: agent-sandbox ports"] if more else lines


async def _obey(ports: Ports) -> None:
    async for line in _lines():
        try:
            await _change(ports, line)
        except UserError as error:
            say_problems(error.problems)


async def _change(ports: Ports, line: str) -> None:
    if not line.startswith("-"):
        report(await ports.open(parsed_port(line)))
        return
    here = parsed_port(line[1:]).here
    if not ports.close(here):
        raise UserError([Problem(where=str(here), what="is not open on this machine")])
    say(f"closed {here}")


async def _lines() -> AsyncIterator[str]:
    """Yield the lines that the user types, until Ctrl-D; none while another program has the terminal."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes]()
    terminal = sys.stdin.fileno()

    def listen() -> None:
        loop.add_reader(terminal, read)

    def read() -> None:
        if os.tcgetpgrp(terminal) != os.getpgrp():  # a read would stop this process
            loop.remove_reader(terminal)
            loop.call_later(BACKGROUND_SECONDS, listen)
            return
        queue.put_nowait(os.read(terminal, LONGEST_LINE))

    listen()
    try:
        while data := await queue.get():
            for line in data.decode("utf-8", "replace").split():
                yield line
    finally:
        loop.remove_reader(terminal)
