"""Show a screen of text on a terminal, and replace it at each change."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from agent_sandbox.cli.terminal.output import rendered
from agent_sandbox.cli.terminal.style import wants_colour
from agent_sandbox.cli.terminal.wrapping import width_of

# The alternate screen, without a cursor. What the terminal showed before is back afterwards.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
FIRST_ROW, ERASE_ROW, ERASE_BELOW = "\x1b[H", "\x1b[2K", "\x1b[J"
ROWS = 24  # of a terminal that does not say how many it has


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
