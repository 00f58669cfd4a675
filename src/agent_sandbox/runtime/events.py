"""What is told while a plan is carried out; the command line decides how it looks."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A step begins; `total` is how many parts it has, 0 where that is not known."""

    purpose: str
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """So many parts are done, and this one is being worked on."""

    done: int
    doing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The step that was started last is done."""

    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unneeded:
    """A step was left out, since what it makes is there and current."""

    name: str


type Event = Started | Progressed | Finished | Unneeded
type Tell = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Tell nobody."""
