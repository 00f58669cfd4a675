"""The agent's resource limits: parse and format them.

Sizes are in the engine's notation: `4g`, `512m`, `1.5g`. Values other than `DEFAULT` are stored in the stack file's
record, where `init` finds them again.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.problems import Problem, UserError

NO_LIMIT = 1 << 60  # more than any disk has
UNITS = {"g": 1 << 30, "m": 1 << 20, "k": 1 << 10, "b": 1}
MIB, GIB = UNITS["m"], UNITS["g"]

# The kernel counts these for a user, over all that it runs in a container or outside: a small part of what a user has
# (usually 8 MiB, 800 kB, thousands). None is more than an engine without privileges may ask for.
PART_OF_THE_USERS: Mapping[str, int] = {"memlock": 64 * 1024, "msgqueue": 256 * 1024, "sigpending": 2048}

# No agent starts with less: a language runtime alone needs as much.
LEAST_MEMORY = 256 * MIB
LEAST_CPUS = 0.1
LEAST_PIDS = 64
# Within the range of engine and kernel, and more than any machine has.
MOST_MEMORY = 1 << 50
MOST_CPUS = 4096
MOST_PIDS = 4_194_304
LEAST_DISK = GIB
MOST_DISK = 1 << 50

SIZE = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,9})?) ?([bkmg])(?:i?b)?", re.ASCII | re.IGNORECASE)
DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)


class Limits(Struct, frozen=True, kw_only=True):
    """A service's limits: memory in bytes, processors, processes and threads, open files per process.

    `disk` is in bytes, for the container's own files and for each of its volumes.
    """

    memory: int
    cpus: float
    pids: int
    files: int
    disk: int = NO_LIMIT


DEFAULT = Limits(memory=8 * GIB, cpus=4, pids=4096, files=16_384)


class Limit(Struct, frozen=True, kw_only=True):
    """One limit that a user can set: how to parse and format it."""

    read: Callable[[str], Any]
    least: float
    most: float
    shown: Callable[[Any], str]
    form: str


def limits(said: Mapping[str, str], before: Limits = DEFAULT, *, spelled: str = "{}") -> Limits:
    """Return `before` with these values by name, or raise UserError with all problems.

    >>> limits({"memory": "4g", "cpus": "1.5"}).memory
    4294967296
    """
    found = (limit_problem(name, text, spelled.format(name)) for name, text in said.items())
    problems = [problem for problem in found if problem]
    if problems:
        raise UserError(problems)
    return replace(before, **{name: LIMITS[name].read(text) for name, text in said.items()})


def kept(chosen: Limits) -> dict[str, str]:
    """Return the values other than the default, by name, as `limits` reads them.

    >>> kept(limits({"memory": "2048m", "pids": "4096"}))
    {'memory': '2g'}
    """
    return {name: text for name, text in limit_texts(chosen).items() if getattr(chosen, name) != getattr(DEFAULT, name)}


def limit_texts(chosen: Limits) -> dict[str, str]:
    """Return all limits that there are, by name, as text."""
    values = {name: getattr(chosen, name) for name in LIMITS}
    return {name: LIMITS[name].shown(value) for name, value in values.items() if value != NO_LIMIT}


def beyond(chosen: Limits, *, memory: int, cpus: int) -> dict[str, str]:
    """Return the limits above what a machine has, by name, and what it has.

    >>> beyond(DEFAULT, memory=4 * GIB, cpus=8)
    {'memory': '4.0 GiB'}
    """
    has = {"memory": (memory, f"{memory / GIB:.1f} GiB"), "cpus": (cpus, str(cpus))}
    return {name: words for name, (most, words) in has.items() if getattr(chosen, name) > most}


def size(number: int) -> str:
    """Return a number of bytes in the largest exact unit.

    >>> size(1 << 30), size(1536 << 20)
    ('1g', '1536m')
    """
    unit, factor = next((unit, factor) for unit, factor in UNITS.items() if number % factor == 0)
    return f"{number // factor}{unit}"


def limit_problem(name: str, text: str, where: str = "") -> Problem | None:
    """Return what is wrong with a limit's text, or None."""
    limit = LIMITS.get(name)
    if limit is None:
        return Problem(where=where, what="no such limit", hint=f"there are {', '.join(LIMITS)}")
    value = limit.read(text)
    if value is None:
        return Problem(where=where, what=f"`{text}` is not a {limit.form}")
    if value < limit.least:
        least = limit.shown(limit.least)
        return Problem(where=where, what=f"`{text}` is too little: an agent needs at least {least}")
    if value > limit.most:
        hint = f"the default is {limit_texts(DEFAULT).get(name, 'none')}"
        return Problem(where=where, what=f"`{text}` is more than any machine has", hint=hint)
    return None


def _size(text: str) -> int | None:
    match = SIZE.fullmatch(text)
    return int(float(match[1]) * UNITS[match[2].lower()]) if match else None


def _decimal(text: str) -> float | None:
    return round(float(text), 2) if DECIMAL.fullmatch(text) else None


def _whole(text: str) -> int | None:
    return int(text) if WHOLE.fullmatch(text) else None


LIMITS: Mapping[str, Limit] = {
    "memory": Limit(
        read=_size, least=LEAST_MEMORY, most=MOST_MEMORY, shown=size, form="size: a number with k, m or g, as in `4g`"
    ),
    "cpus": Limit(
        read=_decimal,
        least=LEAST_CPUS,
        most=MOST_CPUS,
        shown="{:g}".format,
        form="number of processors, as in `2` or `1.5`",
    ),
    "pids": Limit(read=_whole, least=LEAST_PIDS, most=MOST_PIDS, shown=str, form="number of processes, as in `4096`"),
    "disk": Limit(
        read=_size, least=LEAST_DISK, most=MOST_DISK, shown=size, form="size: a number with k, m or g, as in `20g`"
    ),
}
