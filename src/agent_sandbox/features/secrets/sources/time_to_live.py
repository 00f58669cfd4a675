"""A time to live as text: a number and a unit."""

import re
from datetime import timedelta

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.text import safe_repr

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
TEXT = re.compile(rf"([1-9][0-9]{{0,5}})([{''.join(UNITS)}])", re.ASCII)
LEAST, MOST = timedelta(seconds=30), timedelta(days=365)


def parse_ttl(text: str) -> float:
    """Return the seconds, or raise InvalidValue.

    >>> parse_ttl("8h")
    28800.0
    """
    found = TEXT.fullmatch(text)
    seconds = int(found[1]) * UNITS[found[2]] if found else 0
    if not LEAST.total_seconds() <= seconds <= MOST.total_seconds():
        hint = "write a number with a unit, such as 30m, 8h or 7d; at least 30s, at most 365d"
        raise InvalidValue(f"not a time to live: {safe_repr(text)}", hint)
    return float(seconds)
