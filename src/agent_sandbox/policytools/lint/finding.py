"""The result of a lint check."""

from msgspec import Struct


class Finding(Struct, frozen=True, kw_only=True):
    """What is on a line, why it is a risk, and how to fix it."""

    line: int
    what: str
    why: str
    fix: str
