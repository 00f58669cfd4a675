"""One thing that a check found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What stands on a line, why it is a risk, and how to mend it."""

    line: int
    what: str
    why: str
    mend: str
