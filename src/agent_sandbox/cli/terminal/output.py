"""Print data, tables and excerpts of files to stdout, and messages to stderr, with control characters escaped.

On a terminal, messages and text for a person are wrapped to its width, and marked parts are coloured.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from agent_sandbox.cli.terminal.style import Part, Styled, painted, parts_of, styled, wants_colour
from agent_sandbox.cli.terminal.wrapping import cells, shortened, width_of, wrapped
from agent_sandbox.printable import printable, printable_lines
from agent_sandbox.problems import Problem

# No column is wider; a longer rule shifts only its own line.
WIDEST = 100
# Of tables.
GAP = 2
# Without a terminal, a script reads the rows, so they are not cut.
WITHOUT_TERMINAL = 200
NARROWEST = 20  # of the cut column
# Of excerpts.
PLACE = re.compile(r".*:(?P<line>[0-9]+):(?P<column>[0-9]+)", re.DOTALL)
WIDEST_LINE = 100
SIGNS = {"+": "allow", "-": "deny", "@": "title"}
QUOTED = r"\"[^\"]*\"|'[^']*'"
BRACKETS = r"\[[^\[\]{}]*\]|\{[^\[\]{}]*\}"
WORD = re.compile(rf"{QUOTED}|{BRACKETS}|(?:[^\s:]|:(?=\S))+")
IN_FLOW = re.compile(rf"{QUOTED}|{BRACKETS}|(?:[^\s:,\]}}]|:(?=[^\s,\]}}]))+")
OPEN = re.compile(r"[\[{][^\]}]*$")

type Cell = str | tuple[str, str]


def emit(text: str) -> None:
    """Print data, never wrapped or coloured."""
    sys.stdout.write(f"{printable_lines(text)}\n")


def emit_lines(lines: Iterable[str]) -> None:
    """Print text for a person to stdout; a plain string may be several lines."""
    write_lines(sys.stdout, lines)


def emit_json(value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Print JSON, indented by two spaces, keys in the given order."""
    sys.stdout.write(f"{json.dumps(value, indent=2, ensure_ascii=True)}\n")


def say(*parts: Part) -> None:
    """Print a message, of which each part `(text, style)` has a style; one plain string may be several lines."""
    line = parts[0] if len(parts) == 1 and isinstance(parts[0], str) else styled(*parts)
    write_lines(sys.stderr, (line,))


def say_problems(problems: Iterable[Problem], *, beside: Callable[[Problem], str] = lambda _: "") -> None:
    """Print each problem as `error: where: what`, then the text that `beside` returns, then its hint."""
    for problem in problems:
        # A path may contain a line end; `what` may be several lines of a program's output.
        first, *others = (f"{printable(problem.where)}: {problem.what}" if problem.where else problem.what).split("\n")
        say(("error:", "error"), f" {first}")
        for line in others:
            say(line)
        for line in filter(None, beside(problem).split("\n")):
            write_lines(sys.stderr, (styled(line, fixed=True),))  # carets stay below their place
        if problem.hint:
            say(("  hint:", "title"), f" {printable(problem.hint)}")


def short_path(path: Path) -> str:
    """Return a path with `~` for the user's home directory."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else str(path)


def write_lines(stream: TextIO, lines: Iterable[str]) -> None:
    """Print text for a person; a plain string may be several lines."""
    width, colour = width_of(stream, os.environ), wants_colour(stream, os.environ)
    for text in lines:
        each = (text,) if isinstance(text, Styled) else text.split("\n")
        stream.writelines(f"{rendered(line, width=width, colour=colour)}\n" for line in each)


def rendered(line: str, *, width: int, colour: bool) -> str:
    """Return a line for a terminal: escaped, then wrapped to `width` unless that is 0, then coloured."""
    if not (width or colour):
        return printable(line)
    parts = [(printable(text), style) for text, style in parts_of(line)]
    text = "".join(text for text, _ in parts)
    fixed = isinstance(line, Styled) and line.fixed
    indent, rows = wrapped(text, 0 if fixed else width, [*_commands(parts)])
    styles = [style if colour else "" for text, style in parts for _ in text]
    return f"\n{' ' * indent}".join(painted(_runs(text, styles, *row)) for row in rows)


def _commands(parts: Iterable[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Yield where each command begins and ends."""
    at = 0
    for text, style in parts:
        if style == "command":
            yield at, at + len(text)
        at += len(text)


def _runs(text: str, styles: list[str], start: int, end: int) -> Iterator[tuple[str, str]]:
    """Yield the stretches of equal style between two places."""
    for style, places in groupby(range(start, end), key=styles.__getitem__):
        first, *others = places
        yield text[first : (others or [first])[-1] + 1], style


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, cut: int) -> Iterator[Styled]:
    """Yield the headings and the rows; the column `cut` is shortened until a row fits. `>` aligns a heading right."""
    names = [name.lstrip(">") for name in headings]
    texts = [[_of(cell) for cell in row] for row in rows]
    columns = zip(names, *([text for text, _ in row] for row in texts), strict=True)
    widths = [max(map(cells, column)) for column in columns]
    room = width_of(sys.stdout, os.environ) or WITHOUT_TERMINAL
    others = sum(width + GAP for place, width in enumerate(widths) if place != cut)
    widths[cut] = min(widths[cut], max(room - others, NARROWEST))
    right = [name.startswith(">") for name in headings]
    for row in ([(name, "title") for name in names], *texts):
        yield styled(*_row(row, widths, right), fixed=True)


def _of(cell: Cell) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return printable(text), style


def _row(row: Sequence[tuple[str, str]], widths: Sequence[int], right: Sequence[bool]) -> Iterator[Part]:
    last = max((place for place, (text, _) in enumerate(row) if text), default=0)
    for place, (text, style) in enumerate(row[: last + 1]):
        shown = shortened(text, widths[place])
        space = " " * (widths[place] - cells(shown))
        yield from (" " * GAP,) if place else ()
        if right[place]:
            yield space
        yield (shown, style)
        if not right[place] and place < last:
            yield space


def excerpt(problem: Problem, lines: Sequence[str]) -> str:
    r"""Return two lines to print below a problem, or an empty string if it has no place in the file.

    >>> print(excerpt(Problem(where="policy.yaml:2:1", what="unknown key 'domainz'"), ["version: 1", "domainz: []"]))
      2 | domainz: []
        | ^^^^^^^
    """
    found = PLACE.fullmatch(problem.where)
    if found is None or not 0 < int(found["line"]) <= len(lines):
        return ""
    number, column = found["line"], int(found["column"])
    # Far to the right, or after a tab, a caret would be below the wrong column.
    line = lines[int(number) - 1].rstrip()
    if column > WIDEST_LINE or "\t" in line:
        return f"  {number} | {line[:WIDEST_LINE]}"
    # In a list or mapping on one line, a comma ends a word; a colon does before a space.
    in_flow = bool(OPEN.search(line[: column - 1]))
    word = (IN_FLOW if in_flow else WORD).match(line, column - 1)
    carets = "^" * min(len(word[0]) if word else 1, WIDEST_LINE)
    return f"  {number} | {line[:WIDEST_LINE]}\n  {' ' * len(number)} | {' ' * (column - 1)}{carets}"


def diff_lines(diff: str) -> list[str]:
    r"""Return the lines of a unified diff, with colours and never wrapped.

    >>> diff_lines("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n")
    ['--- a', '+++ b', '@@ -1 +1 @@', '-x', '+y']
    """
    return [_diff_line(line) for line in diff.removesuffix("\n").split("\n")]


def _diff_line(line: str) -> Styled:
    style = "title" if line.startswith(("--- ", "+++ ")) else SIGNS.get(line[:1], "")
    return styled((line, style), fixed=True)
