"""Progress events of a plan; the command line decides how to show them."""

from collections.abc import Callable
from dataclasses import dataclass

FINISHING = "finishing"  # what is in progress between two parts, and after the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A step begins; `total` is its number of parts, 0 if unknown."""

    purpose: str
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """`done` parts are finished, and `doing` is in progress."""

    done: int
    doing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last started step is done."""

    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unneeded:
    """A step was skipped, because its result exists and is current."""

    name: str


type Event = Started | Progressed | Finished | Unneeded
type Tell = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Ignore the event."""
