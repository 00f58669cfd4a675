"""Show the progress of a plan on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.printable import printable
from agent_sandbox.runtime.events import FINISHING, Event, Finished, Progressed, Started, Tell, Unneeded, ignore

WIDTH = 60  # of the current step's text, on a terminal
WIDE = 110  # the same, on a line of its own


@contextmanager
def progress(*, quiet: bool, terminal: bool | None = None) -> Iterator[Tell]:
    """Return a receiver of events; drawing ends with the block."""
    if quiet:
        yield ignore
    elif sys.stderr.isatty() if terminal is None else terminal:
        with _bar() as tell:
            yield tell
    else:
        yield Lines().tell


@dataclass(slots=True)
class Lines:
    """A receiver that prints one line per event."""

    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = say
    since: float = 0.0
    total: int = 0
    printed: set[str] = field(default_factory=set)

    def tell(self, event: Event) -> None:
        """Print the line of an event."""
        match event:
            case Started(purpose=purpose, total=total):
                self.since, self.total, self.printed = self.clock(), total, set()
                self.say(f"{purpose} ...")
            case Progressed(done=done, doing=doing) if doing not in {*self.printed, FINISHING}:
                self.printed.add(doing)  # the engine reports twice, in any order, that a service is healthy
                part = f"{done + 1}/{self.total} " if self.total else ""
                self.say(f"  {part}{shortened(doing, WIDE)}")
            case Finished():
                self.say(f"  done in {self.clock() - self.since:.1f} s")
            case Unneeded(name=name):
                self.say(f"{name} is up to date")
            case _:
                pass


@contextmanager
def _bar() -> Iterator[Tell]:
    from rich.console import Console  # noqa: PLC0415 - only needed on a terminal
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    doing = TextColumn("[dim]{task.fields[doing]}")
    with Progress(*columns, TimeElapsedColumn(), doing, console=console, transient=False) as bar:
        task: list[TaskID] = []

        def tell(event: Event) -> None:
            match event:
                case Started(purpose=purpose, total=total):
                    task.append(bar.add_task(escape(printable(purpose)), total=total or None, doing=""))
                case Progressed(done=done, doing=text):
                    bar.update(task[-1], completed=done, doing=escape(printable(shortened(text, WIDTH))))
                case Finished():
                    parts = bar.tasks[task[-1]].total or 1
                    bar.update(task[-1], total=parts, completed=parts, doing="")
                case Unneeded(name=name):
                    console.print(f"[dim]{escape(printable(name))} is up to date")

        yield tell


def shortened(text: str, width: int) -> str:
    """Return the text on one line, no wider than that.

    >>> shortened("RUN apt-get update     && apt-get install", 20)
    'RUN apt-get updat...'
    """
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
