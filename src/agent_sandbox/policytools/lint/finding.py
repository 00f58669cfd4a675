"""The result of a lint check."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is on a line, why it is a risk, and how to fix it."""

    line: int
    what: str
    why: str
    fix: str
