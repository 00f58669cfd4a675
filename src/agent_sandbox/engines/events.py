"""Progress events of a plan; the command line decides how to show them."""

from collections.abc import Callable

from msgspec import Struct

FINISHING = "finishing"  # what is in progress between two parts, and after the last one


class Started(Struct, frozen=True, kw_only=True):
    """A step begins; `total` is its number of parts, 0 if unknown."""

    purpose: str
    total: int = 0


class Progressed(Struct, frozen=True, kw_only=True):
    """`done` parts are finished, and `doing` is in progress."""

    done: int
    doing: str


class Finished(Struct, frozen=True, kw_only=True):
    """The last started step is done."""

    purpose: str


class Unneeded(Struct, frozen=True, kw_only=True):
    """A step was skipped, because its result exists and is current."""

    name: str


type Event = Started | Progressed | Finished | Unneeded
type Tell = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Ignore the event."""
