"""One row a figure: ours, the other's, the ratio and the goal."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Ratio(Enum):
    """Which way a goal is told."""

    CHEAPER = "other / ours: how many times cheaper we are"
    COST = "ours / other: how many times of it we take"
    MORE = "ours - other: how much more we take"


RATIOS: dict[Ratio, Callable[[float, float], float]] = {
    Ratio.CHEAPER: lambda ours, other: other / ours,
    Ratio.COST: lambda ours, other: ours / other,
    Ratio.MORE: lambda ours, other: ours - other,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure measured in pairs: `ours[i]` and `other[i]` belong to the same moment, and each pair has its ratio."""

    figure: str
    unit: str
    ours: Sequence[float]
    other: Sequence[float] = ()
    beside: str = ""
    goal: str = ""
    ratio: Ratio = Ratio.CHEAPER

    def cells(self) -> tuple[str, ...]:
        """Return the row as text: medians, and the ratio with its spread."""
        ours = f"{statistics.median(self.ours):.4g} {self.unit}"
        if not self.other:
            return (self.figure, ours, "", "", self.goal)
        pairs = zip(self.ours, self.other, strict=True)
        ratios = [RATIOS[self.ratio](a, b) for a, b in pairs]
        unit = f" {self.unit} more" if self.ratio is Ratio.MORE else "x"
        spread = f"{statistics.median(ratios):.2f}{unit} ({min(ratios):.2f}-{max(ratios):.2f})"
        return (self.figure, ours, f"{statistics.median(self.other):.4g} {self.unit} {self.beside}", spread, self.goal)


HEADINGS = ("figure", "ours", "beside", "ratio", "goal")


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    cells = [HEADINGS, tuple("---" for _ in HEADINGS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def matrix(sides: Sequence[str], figures: Mapping[str, Mapping[str, float]], goals: Mapping[str, str]) -> str:
    """Return a table in Markdown with a column for each side; a figure that a side has not got stays empty."""
    headings = ("figure", *sides, "goal")
    cells = [
        (title, *(f"{found[side]:.4g}" if side in found else "" for side in sides), goals.get(title, ""))
        for title, found in figures.items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, tuple("---" for _ in headings), *cells))
