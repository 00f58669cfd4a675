"""`agent-sandbox ls`."""

import json as json_lines
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from time import sleep
from typing import Annotated, Any, TextIO

from msgspec.structs import asdict, replace
from typer import Option

from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import Json
from agent_sandbox.cli.terminal.output import emit, emit_json, emit_lines, rendered, say, short_path
from agent_sandbox.cli.terminal.style import Styled, styled, wants_colour
from agent_sandbox.cli.terminal.wrapping import width_of
from agent_sandbox.engines.container import Container
from agent_sandbox.features.proxy.control import ask_proxy
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.features.stack.stack_list import ListedStack, list_stacks
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.size_text import size_text
from agent_sandbox.stack.engine import ENGINE

HEADINGS = ("NAME", "AGENT", "STATE", "SINCE", "MEMORY", "DISK", "DENIED")
STATES = {"running": "ok", "down": ""}
# Of a stack with any other state, which is shown as a note: the table fits into 80 columns.
NOT_READY = "not ready"
REMOVED = "removed"  # the state of a stack that was there before, in `--json --watch`
NONE = f"no stacks on this {ENGINE}: agent-sandbox run AGENT, in a project, starts one"
# Between two looks. The engine measures every volume anew, so their sizes are asked for less often.
SECONDS = 2.0
LOOKS_PER_SIZE = 15
# They change all the time, so `--json --watch` prints no line for them alone.
MEASURED = ("memory", "disk")
UNITS = ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "m"), (timedelta(seconds=1), "s"))


Watch = Annotated[bool, Option(help="Keep the list up to date until Ctrl-C; with --json, print a line per change.")]
# The alternate screen, without a cursor. What the terminal showed before is back afterwards.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
FIRST_ROW, ERASE_ROW, ERASE_BELOW = "\x1b[H", "\x1b[2K", "\x1b[J"
ROWS = 24  # of a terminal that does not say how many it has


def ls(*, watch: Watch = False, json: Json = False) -> int:
    """List the stacks on this machine: state, memory, disk, denials, and what to clean up."""
    if watch:
        return _watch(json=json)
    found = _stacks()
    if json:
        emit_json({"stacks": [_as_json(one) for one in found]})
    elif found:
        emit_lines(_as_text(found, datetime.now(UTC)))
    else:
        say(NONE)
    return DONE


def _stacks(*, disk: bool = True) -> tuple[ListedStack, ...]:
    def ask(proxy: Container) -> Mapping[str, Any]:
        return ask_proxy(driver(), proxy, "status")

    return list_stacks(driver(), open_store(os.environ), ask=ask, disk=disk)


def _watch(*, json: bool) -> int:
    if not (json or sys.stdout.isatty()):
        hint = "--json --watch prints a line for each change"
        raise UserError([Problem(where="--watch", what="needs a terminal", hint=hint)])
    with suppress(KeyboardInterrupt):
        if json:
            _print_changes()
        else:
            _redraw()
    return INTERRUPTED


def _redraw() -> None:
    with redrawing(sys.stdout) as show:
        for found in _looks():
            show([*(_as_text(found, datetime.now(UTC)) if found else (NONE,)), "", "Ctrl-C ends"])


def _looks() -> Iterator[tuple[ListedStack, ...]]:
    """Yield the stacks again and again, with the sizes of their volumes as they were measured last."""
    sizes: dict[str, int | None] = {}
    for number in count():
        if number % LOOKS_PER_SIZE == 0:
            found = _stacks()
            sizes = {one.name: one.disk for one in found}
        else:
            found = tuple(replace(one, disk=sizes.get(one.name)) for one in _stacks(disk=False))
        yield found
        sleep(SECONDS)


def _print_changes() -> None:
    """Print each stack as a line of JSON, and again when anything but its memory and disk has changed."""
    known: dict[str, dict[str, Any]] = {}
    for found in _looks():
        now = {one.name: _as_json(one) for one in found}
        for name, one in now.items():
            if _lasting(one) != _lasting(known.get(name, {})):
                emit(json_lines.dumps(one))
        for name in known.keys() - now.keys():
            emit(json_lines.dumps({**known[name], "state": REMOVED}))
        sys.stdout.flush()
        known = now


def _lasting(stack: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stack.items() if key not in MEASURED}


def _as_json(stack: ListedStack) -> dict[str, Any]:
    return {
        **asdict(stack),
        "root": str(stack.root) if stack.root else None,
        "clone": {"name": stack.clone.name, "project": str(stack.clone.project)} if stack.clone else None,
        "agents": list(stack.agents),
        "since": stack.since.isoformat() if stack.since else None,
        "notes": list(stack.notes),
    }


def _as_text(stacks: Sequence[ListedStack], now: datetime) -> Iterator[str]:
    """Yield a table, with the directory and the notes of each stack below its row."""
    rows = [_cells(stack, now) for stack in stacks]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    yield styled(("  ".join(_padded(HEADINGS, widths)).rstrip(), "title"))
    for stack, row in zip(stacks, rows, strict=True):
        yield _row(_padded(row, widths), STATES.get(stack.state, "warn"))
        yield from _place(stack)
        notes = (*(() if stack.state in STATES else (stack.state,)), *stack.notes)
        yield from (styled("  ", (note, "warn")) for note in notes)


def _place(stack: ListedStack) -> Iterator[str]:
    """Yield the directory; a note says if it is unknown."""
    if stack.clone:
        yield f"  {stack.clone.name}, a clone of {short_path(stack.clone.project)}"
    elif stack.root:
        yield f"  {short_path(stack.root)}"


def _row(cells: Sequence[str], style: str) -> Styled:
    name, agent, state, *others = cells
    return styled((name, "title"), f"  {agent}  ", (state, style), f"  {'  '.join(others)}".rstrip())


def _padded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)]


def _cells(stack: ListedStack, now: datetime) -> tuple[str, ...]:
    return (
        stack.name,
        ", ".join(stack.agents) or "-",
        stack.state if stack.state in STATES else NOT_READY,
        _age(now - stack.since) if stack.since else "-",
        "-" if stack.memory is None else size_text(stack.memory),
        "-" if stack.disk is None else size_text(stack.disk),
        "-" if stack.denied is None else str(stack.denied),
    )


def _age(passed: timedelta) -> str:
    """Return a time span in its largest unit.

    >>> _age(timedelta(hours=49)), _age(timedelta(minutes=5, seconds=59)), _age(timedelta(seconds=-1))
    ('2d', '5m', '0s')
    """
    for unit, letter in UNITS:
        if passed >= unit:
            return f"{passed // unit}{letter}"
    return "0s"


@contextmanager
def redrawing(stream: TextIO) -> Iterator[Callable[[Iterable[str]], None]]:
    """Yield a function that replaces the text on a terminal. Lines that do not fit are counted instead."""

    def show(lines: Iterable[str]) -> None:
        width, colour = width_of(stream, os.environ), wants_colour(stream, os.environ)
        rows = [row for line in lines for row in rendered(line, width=width, colour=colour).split("\n")]
        most = _height(stream)
        if len(rows) > most:
            rows = [*rows[: most - 1], f"... {len(rows) - most + 1} more lines do not fit"]
        stream.write(FIRST_ROW + "\n".join(f"{ERASE_ROW}{row}" for row in rows) + ERASE_BELOW)
        stream.flush()

    stream.write(ENTER)
    try:
        yield show
    finally:
        stream.write(LEAVE)
        stream.flush()


def _height(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).lines or ROWS
    except (OSError, ValueError):
        return ROWS
