"""Sizes of bodies, written as `1MiB`, `500KB` or a number of bytes, and budgets, such as `50MiB/day`."""

import re
from collections.abc import Iterator
from typing import NamedTuple, override

from msgspec import Struct

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.text import safe_repr

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SIZE = re.compile(rf"(?P<number>0|[1-9][0-9]{{0,8}}) ?(?P<unit>{'|'.join(UNITS)})", re.ASCII)
HOW = f"write a number of bytes, or a number with {', '.join(UNITS)}, such as `1MiB`"


def parse_body_size(value: object) -> int:
    """Return the number of bytes, or raise InvalidValue.

    >>> parse_body_size("1MiB"), parse_body_size("500KB"), parse_body_size(0)
    (1048576, 500000, 0)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InvalidValue(f"not a size: `{value}`", HOW)
        return value
    if not isinstance(value, str):
        raise InvalidValue("a size has to be a number of bytes", HOW)
    found = SIZE.fullmatch(value)
    if found is None:
        raise InvalidValue(f"not a size: {safe_repr(value)}", HOW)
    return int(found["number"]) * UNITS[found["unit"]]


def shown_size(size: int) -> str:
    """Return the size in its shortest exact form.

    >>> shown_size(1048576), shown_size(500000), shown_size(1234)
    ('1MiB', '500KB', '1234B')
    """
    by_size = sorted(UNITS.items(), key=lambda unit: -unit[1])
    name, unit = next((name, unit) for name, unit in by_size if (size and size % unit == 0) or unit == 1)
    return f"{size // unit}{name}"


PERIODS = {"min": 60, "hour": 3_600, "day": 86_400}
COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
UNTIL = f"write an amount per {', '.join(PERIODS)}, such as"


class Rate(NamedTuple):
    """At most `most` requests or bytes per `seconds`."""

    most: int
    seconds: int

    @property
    def period(self) -> str:
        """The name of the time."""
        return next(name for name, seconds in PERIODS.items() if seconds == self.seconds)


def parse_count_rate(text: str) -> Rate:
    """Return a number of requests per time, or raise InvalidValue.

    >>> parse_count_rate("100/min")
    Rate(most=100, seconds=60)
    """
    amount, seconds = _parts(text, how := f"{UNTIL} `100/min`")
    if not COUNT.fullmatch(amount):
        raise InvalidValue(f"not a number of requests: {safe_repr(amount)}", how)
    return Rate(int(amount), seconds)


def parse_size_rate(text: str) -> Rate:
    """Return a size per time, or raise InvalidValue.

    >>> parse_size_rate("50MiB/day")
    Rate(most=52428800, seconds=86400)
    """
    amount, seconds = _parts(text, how := f"{UNTIL} `50MiB/day`")
    if not SIZE.fullmatch(amount) or not parse_body_size(amount):
        raise InvalidValue(f"not a size: {safe_repr(amount)}", how)
    return Rate(parse_body_size(amount), seconds)


def _parts(text: str, how: str) -> tuple[str, int]:
    amount, _, period = text.partition("/")
    if period not in PERIODS:
        raise InvalidValue(f"not an amount per time: {safe_repr(text)}", how)
    return amount, PERIODS[period]


class Budget(Struct, frozen=True, kw_only=True):
    """Limits per time on requests and on the bytes that they send and receive; None for no limit."""

    requests: Rate | None = None
    upload: Rate | None = None
    download: Rate | None = None

    def rates(self) -> Iterator[tuple[str, Rate]]:
        """Yield the rates that are set, by name."""
        named = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return ((name, rate) for name, rate in named if rate is not None)

    @override
    def __str__(self) -> str:
        return ", ".join(shown_rate(name, rate) for name, rate in self.rates())


def shown_rate(name: str, rate: Rate) -> str:
    """Return a rate of a budget as text.

    >>> shown_rate("upload", Rate(1048576, 86400)), shown_rate("requests", Rate(100, 60))
    ('1MiB of upload per day', '100 requests per min')
    """
    amount = f"{rate.most} requests" if name == "requests" else f"{shown_size(rate.most)} of {name}"
    return f"{amount} per {rate.period}"
