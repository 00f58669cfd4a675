"""A table whose rows fit on one line each. Its cells may come from the sandbox."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from agent_sandbox.cli.terminal.style import Part, Styled, styled
from agent_sandbox.cli.terminal.wrapping import cells, shortened, width_of
from agent_sandbox.printable import printable

GAP = 2
# Without a terminal, a script reads the rows, so they are not cut.
WITHOUT_TERMINAL = 200
NARROWEST = 20  # of the cut column

type Cell = str | tuple[str, str]


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
