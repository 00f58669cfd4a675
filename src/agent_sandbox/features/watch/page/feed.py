"""Feed the pages with the last decisions of all stacks, the open questions and notes.

A slow page loses decisions, never questions. A stack with many decisions loses its own, not those of others.

Every page reads from the same bounded lists, from where it stopped: nothing is kept for a page that does not read.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, takewhile
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent_sandbox.counted import counted
from agent_sandbox.features.proxy.decisions import is_probe
from agent_sandbox.features.proxy.reports import Dropped, Reply, Report, State
from agent_sandbox.features.watch.watching.stack_ports import Inside

KEPT = 1_000  # decisions of all stacks together
AT_ONCE = 300  # of them in one piece of news
NOTES = 20

type Record = Mapping[str, Any]


class Stack(Struct, frozen=True, kw_only=True):
    """The open questions and grants of one stack, none while it is not connected, and what listens in its sandbox."""

    name: str
    state: State = field(default_factory=State)
    connected: bool = False
    inside: Inside = Inside()


class Decision(Struct, frozen=True, kw_only=True):
    """A record of a stack's proxy. The number is the feed's own."""

    number: int
    stack: str
    record: Record


class News(Struct, frozen=True, kw_only=True):
    """Everything new since a `Cursor`. `missed` is the number of new decisions that were dropped already.

    `stacks` has all stacks, or is None if none of them has changed.
    """

    decisions: Sequence[Decision]
    missed: int
    stacks: Sequence[Stack] | None
    notes: Sequence[str]


class Cursor(Struct, kw_only=True):
    """What a page has already got: the numbers of the last decision, change of a stack, and note."""

    record: int = 0
    change: int = 0
    note: int = 0


class Feed:
    """Takes what connections report about their stacks, from any thread, and wakes the pages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decisions: dict[str, deque[Decision]] = {}  # of each stack
        self._notes: deque[tuple[int, str]] = deque(maxlen=NOTES)
        self._last, self._last_note, self._changes = 0, 0, 1
        self._stacks: dict[str, Stack] = {}
        self._pages: set[Page] = set()
        self.over = False

    def add(self, name: str) -> None:
        """Show one more stack, which is not connected yet."""
        with self._lock:
            self._set(Stack(name=name))
        self._wake()

    def _set(self, stack: Stack) -> None:
        self._stacks[stack.name] = stack
        self._changes += 1

    def report(self, name: str, found: Report) -> None:
        """Take what the connection of a stack reports."""
        with self._lock:
            match found:
                case State():
                    self._set(replace(self._stack(name), state=found, connected=True))
                case Reply(error=error):
                    self._note(f"not done: {error}" if error else "")
                case Dropped(count=count):
                    self._note(f"{counted(count, 'decision')} came too fast; agent-sandbox proxy logs has them")
                case _ if not is_probe(found):
                    self._keep(name, found)
        self._wake()

    def _keep(self, name: str, record: Record) -> None:
        """Keep a decision. If there are too many, drop the oldest of the stack that has the most."""
        self._last += 1
        self._decisions.setdefault(name, deque()).append(Decision(number=self._last, stack=name, record=record))
        if sum(map(len, self._decisions.values())) > KEPT:
            max(self._decisions.values(), key=len).popleft()

    def report_ports(self, name: str, found: Inside) -> None:
        """Take what listens in the sandbox of a stack."""
        with self._lock:
            self._set(replace(self._stack(name), inside=found))
            self._note(found.note)
        self._wake()

    def inside(self, name: str) -> Inside:
        """Return what listens in the sandbox of a stack."""
        with self._lock:
            return self._stack(name).inside

    def _stack(self, name: str) -> Stack:
        return self._stacks.get(name, Stack(name=name))

    def lost(self, name: str, why: str) -> None:
        """Forget the questions of a stack, which mean nothing to a new proxy."""
        with self._lock:
            self._set(replace(self._stack(name), state=State(), connected=False))
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

    def state(self, name: str) -> State:
        """Return the open questions and grants of a stack."""
        with self._lock:
            return self._stack(name).state

    def decision(self, number: int) -> Decision | None:
        """Return a decision, if it is still kept."""
        with self._lock:
            return next((one for one in chain(*self._decisions.values()) if one.number == number), None)

    def after(self, cursor: Cursor) -> News:
        """Return what is new, and move the cursor."""
        with self._lock:
            if cursor.record > self._last:  # an unknown number: start over
                cursor.record = 0
            new = self._after(cursor.record)[:AT_ONCE]
            end = new[-1].number if new else cursor.record
            news = News(
                decisions=new,
                missed=end - cursor.record - len(new) if cursor.record else 0,
                stacks=[*self._stacks.values()] if cursor.change != self._changes else None,
                notes=[text for number, text in self._notes if number > cursor.note],
            )
            cursor.record = end
            cursor.change, cursor.note = self._changes, self._last_note
            return news

    def _after(self, number: int) -> list[Decision]:
        """Return the later decisions of all stacks in order. Only those are looked at: a flood makes many calls."""
        newest_first = (takewhile(lambda one: one.number > number, reversed(kept)) for kept in self._decisions.values())
        return sorted(chain(*newest_first), key=lambda one: one.number)

    def has_more(self, cursor: Cursor) -> bool:
        """Return whether something is new."""
        return (cursor.record, cursor.change, cursor.note) != (self._last, self._changes, self._last_note)


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
