"""Feed the pages with the last decisions, the open questions and notes. A slow page loses decisions, never questions.

Every page reads from the same bounded list, from where it stopped: nothing is kept for a page that does not read.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_sandbox.runtime.proxy.decisions import is_probe
from agent_sandbox.runtime.proxy.reports import Dropped, Reply, Report, State

KEPT = 1_000  # decisions
AT_ONCE = 300  # of them in one piece of news
NOTES = 20

type Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is new since a `Cursor`. `missed` counts the decisions in between that are no longer kept."""

    records: Sequence[tuple[int, Record]]
    missed: int
    state: State | None
    connected: bool
    notes: Sequence[str]


@dataclass(slots=True, kw_only=True)
class Cursor:
    """What a page has already got: the numbers of the last decision, state and note."""

    record: int = 0
    state: int = 0
    note: int = 0


class Feed:
    """Takes what a connection reports, from any thread, and wakes the pages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: deque[tuple[int, Record]] = deque(maxlen=KEPT)
        self._notes: deque[tuple[int, str]] = deque(maxlen=NOTES)
        self._last, self._last_note, self._changes = 0, 0, 1
        self._state, self._connected = State(), False
        self._pages: set[Page] = set()
        self.over = False

    def report(self, found: Report) -> None:
        """Take what the connection reports."""
        with self._lock:
            match found:
                case State():
                    self._state, self._connected = found, True
                    self._changes += 1
                case Reply(error=error):
                    self._note(f"not done: {error}" if error else "")
                case Dropped(count=count):
                    self._note(f"{count} decisions came too fast; agent-sandbox proxy logs has them")
                case _ if not is_probe(found):
                    self._last += 1
                    self._records.append((self._last, found))
        self._wake()

    def lost(self, why: str) -> None:
        """Forget the questions, which mean nothing to a new proxy."""
        with self._lock:
            self._state, self._connected = State(), False
            self._changes += 1
            self._note(why)
        self._wake()

    def _note(self, text: str) -> None:
        if text:
            self._last_note += 1
            self._notes.append((self._last_note, text))

    def end(self) -> None:
        """End the streams of all pages."""
        self.over = True
        self._wake()

    def _wake(self) -> None:
        for page in (*self._pages,):
            page.wake()

    def join(self, page: "Page") -> None:
        """Start to wake this page."""
        with self._lock:
            self._pages |= {page}

    def leave(self, page: "Page") -> None:
        """Stop waking this page."""
        with self._lock:
            self._pages -= {page}

    @property
    def state(self) -> State:
        """The open questions and grants."""
        return self._state

    def record(self, number: int) -> Record | None:
        """Return a decision, if it is still kept."""
        with self._lock:
            return next((record for one, record in self._records if one == number), None)

    def after(self, cursor: Cursor) -> News:
        """Return what is new, and move the cursor."""
        with self._lock:
            first = self._records[0][0] if self._records else self._last + 1
            if cursor.record > self._last:  # an unknown number: start over
                cursor.record = 0
            begin = max(cursor.record + 1, first)
            new = [*islice(self._records, begin - first, begin - first + AT_ONCE)]
            news = News(
                records=new,
                missed=begin - cursor.record - 1 if cursor.record else 0,
                state=self._state if cursor.state != self._changes else None,
                connected=self._connected,
                notes=[text for number, text in self._notes if number > cursor.note],
            )
            cursor.record = new[-1][0] if new else begin - 1
            cursor.state, cursor.note = self._changes, self._last_note
            return news

    def has_more(self, cursor: Cursor) -> bool:
        """Return whether something is new."""
        return (cursor.record, cursor.state, cursor.note) != (self._last, self._changes, self._last_note)


class Page:
    """One page that reads the feed, in the loop of the server."""

    def __init__(self) -> None:
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        self._woken = False

    def wake(self) -> None:
        """Wake it, from any thread; once, however much comes meanwhile."""
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._news.set)

    async def news(self, seconds: float) -> None:
        """Wait for news, at most this long."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()
        self._woken = False
