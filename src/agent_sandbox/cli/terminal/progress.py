"""Show the progress of a plan on stderr: one line that changes on a terminal, plain lines elsewhere.

A step that takes less than a second shows nothing.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Lock, Thread
from typing import TextIO

from msgspec import Struct, field

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.wrapping import cells, width_of
from agent_sandbox.engines.events import FINISHING, Event, Finished, Progressed, Started, Tell, Unneeded, ignore
from agent_sandbox.printable import printable

PATIENCE = 1.0  # seconds; what takes longer is shown
REDRAW = 0.1  # seconds
WIDE = 110  # of a plain line
ERASE = "\r\x1b[K"

type Clock = Callable[[], float]


@contextmanager
def progress(*, quiet: bool, lists_current: bool = False) -> Iterator[Tell]:
    """Return a receiver of events; drawing ends with the block. `lists_current` also reports unneeded steps."""
    if quiet:
        yield ignore
        return
    live = width_of(sys.stderr, os.environ) and os.environ.get("TERM") != "dumb"
    display = LiveLine(stream=sys.stderr) if live else Lines()
    lock = Lock()

    def tell(event: Event) -> None:
        with lock:
            if lists_current or not isinstance(event, Unneeded):
                display.tell(event)

    def tick() -> None:
        with lock:
            display.tick()

    with _ticking(tick):
        try:
            yield tell
        finally:
            with lock:
                display.end()


@contextmanager
def _ticking(tick: Callable[[], None]) -> Iterator[None]:
    ended = Flag()

    def run() -> None:
        while not ended.wait(REDRAW):
            tick()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Lines(Struct):
    """A display that prints one line per event."""

    clock: Clock = time.monotonic
    say: Callable[[str], None] = say
    since: float = 0.0
    total: int = 0
    printed: set[str] = set()
    # The lines of a step that has not taken a second yet; None once they were printed.
    waiting: list[str] | None = []

    def tell(self, event: Event) -> None:
        """Print the line of an event, once its step has taken a second."""
        match event:
            case Started(purpose=purpose, total=total):
                self.since, self.total, self.printed = self.clock(), total, set()
                self.waiting = [f"{purpose} ..."]
            case Progressed(done=done, doing=doing) if doing not in {*self.printed, FINISHING}:
                self.printed.add(doing)  # the engine reports twice, in any order, that a service is healthy
                part = f"{done + 1}/{self.total} " if self.total else ""
                self._add(f"  {part}{shortened(doing, WIDE)}")
            case Finished():
                self._add(f"  done in {self.clock() - self.since:.1f} s")
                self.waiting = []
            case Unneeded(name=name):
                self.say(f"{name} is up to date")
            case _:
                pass

    def _add(self, line: str) -> None:
        self.tick()
        if self.waiting is None:
            self.say(line)
        else:
            self.waiting.append(line)

    def tick(self) -> None:
        """Print the lines that wait, if their step takes long."""
        if self.waiting and self.clock() - self.since >= PATIENCE:
            for line in self.waiting:
                self.say(line)
            self.waiting = None

    def end(self) -> None:
        """Do nothing: each line is complete."""


class LiveLine(Struct):
    """A display of one line that changes. A step that took long leaves a line behind."""

    stream: TextIO
    clock: Clock = time.monotonic
    since: float = 0.0
    purpose: str = ""
    total: int = 0
    now: Progressed = field(default_factory=lambda: Progressed(done=0, doing=""))
    drawn: str = ""

    def tell(self, event: Event) -> None:
        """Note the event and draw the line anew."""
        match event:
            case Started(purpose=purpose, total=total):
                self.since, self.purpose, self.total = self.clock(), purpose, total
                self.now = Progressed(done=0, doing="")
            case Progressed():
                self.now = event
            case Finished():
                self.end()
                if (seconds := self.clock() - self.since) >= PATIENCE:
                    say(f"{self.purpose}: ", ("done", "ok"), f" in {seconds:.1f} s")
                self.purpose = ""
            case Unneeded(name=name):
                self.end()
                say(f"{name} is up to date")
        self.tick()

    def tick(self) -> None:
        """Draw the line, if there is a step and it takes long."""
        seconds = self.clock() - self.since
        if self.purpose and seconds >= PATIENCE:
            part = f"{min(self.now.done + 1, self.total)}/{self.total}" if self.total else ""
            words = (self.purpose, part, f"{seconds:.0f} s", " ".join(self.now.doing.split()))
            text = cut("  ".join(filter(None, words)), width_of(self.stream, os.environ) - 1)
            if text != self.drawn:
                self.stream.write(f"{ERASE}{text}")
                self.stream.flush()
            self.drawn = text

    def end(self) -> None:
        """Erase the line."""
        if self.drawn:
            self.stream.write(ERASE)
            self.stream.flush()
            self.drawn = ""


def shortened(text: str, width: int) -> str:
    """Return the text on one line, no wider than that.

    >>> shortened("RUN apt-get update     && apt-get install", 20)
    'RUN apt-get updat...'
    """
    return cut(" ".join(text.split()), width)


def cut(line: str, width: int) -> str:
    """Return a line, escaped, and cut to that width."""
    line = printable(line)
    if cells(line) <= width:
        return line
    kept = max(width - 3, 0)
    line = line[:kept]
    while cells(line) > kept:
        line = line[:-1]
    return f"{line}..."
