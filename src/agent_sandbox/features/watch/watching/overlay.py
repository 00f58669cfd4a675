"""The questions of `run --ask`: shown over the agent in its own terminal, one at a time, and answered with one key."""

import os
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from agent_sandbox.counted import counted
from agent_sandbox.features.proxy.reports import Question, Reply, Report, State, groups
from agent_sandbox.features.watch.watching.connection import GONE, LAYERS, SETTLE_SECONDS, Connection
from agent_sandbox.features.watch.watching.plain import ANSWERS
from agent_sandbox.problems import UserError

BELL = b"\x07"
LONGEST = 100  # of a notification
WIDEST = 100  # a longer line is hard to read
LONGEST_URL, LONGEST_RULE = 240, 240  # the whole question fits on a terminal of 24 lines
MOST_LINES = 24
GONE_SECONDS = 3.0  # how long it is shown that a question is gone
TOO_SOON = "not sent, because this question has just appeared: read it first"
BACK = "  Esc  back to the agent"
LATER = f"{BACK}; the request goes on waiting"


class About(Struct, frozen=True, kw_only=True):
    """The request or group that an answer is for. A restarted proxy uses the same number for another request."""

    id: int
    shown: str


def _about(name: str, several: Sequence[Question]) -> About:
    first = several[0]
    return (
        About(id=0, shown=f"requests under {name}") if name else About(id=first.id, shown=f"{first.method} {first.url}")
    )


class Overlay:
    """Shows the questions of one connection. `report` and `lost` may be called from another thread."""

    def __init__(
        self,
        name: str,
        *,
        changed: Callable[[], None],
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection: Connection | None = None
        self._name, self._changed, self._clock = name, changed, clock
        self._notification = partial(_notification, environ)
        self._lock = threading.Lock()
        self._state, self._since = State(), clock()
        self._later: set[int] = set()
        self._called: set[int] = set()
        self._current: About | None = None
        self._closed: About | None = None  # what the user has answered, or left for later
        self._appeared = 0.0
        self._gone, self._gone_until = "", 0.0
        self._said = ""

    def report(self, found: Report) -> None:
        """Update the questions from a report of the connection."""
        with self._lock:
            match found:
                case State():
                    self._state, self._since = found, self._clock()
                    self._later &= {one.id for one in found.questions}
                    self._called &= {one.id for one in found.questions}
                case Reply(error=error):
                    self._said = error
                case _:
                    return
        self._changed()

    def lost(self, _: str) -> None:
        """Forget the questions: they mean nothing to a new proxy."""
        self.report(State())

    def _groups(self) -> list[tuple[str, Sequence[Question]]]:
        asked = (one for one in self._state.questions if one.id not in self._later)
        return [*groups(asked)]

    def lines(self, columns: int) -> list[str]:
        """Return the lines about the oldest question; none if there is none."""
        width = min(columns, WIDEST) - 1
        with self._lock:
            waiting = self._groups()
            self._note_change([_about(*group) for group in waiting])
            gone = [f"  {self._gone}", ""] if self._clock() < self._gone_until else []
            if not waiting:
                self._said = ""
                return _wrapped([f"{self._name}: no request waits", "", *gone, BACK], width) if gone else []
            name, several = waiting[0]
            left = max(0, several[0].seconds_left - int(self._clock() - self._since))
            said = [f"  {self._said}"] if self._said else []
        count = f", 1 of {len(waiting)}" if len(waiting) > 1 else ""
        title = f"{self._name}: a request waits for you{count}, {counted(left, 'second')} left"
        head = [title[:width], "", *_wrapped(gone, width)]
        if name:
            return [*head, *_wrapped([*_group(name, several), LATER, *said], width)]
        asked, keys = _wrapped(_single(several[0]), width), _wrapped([*_keys(several[0]), LATER, *said], width)
        room = MOST_LINES - sum(map(len, (head, asked, keys)))
        notes = _wrapped((f"    {note}" for note in several[0].notes), width)
        return [*head, *asked, *notes[: max(0, room)], *keys]

    def _note_change(self, waiting: Sequence[About]) -> None:
        """Notice that another question is shown, and whether the one before is gone without the user's answer."""
        before, now = self._current, waiting[0] if waiting else None
        if before == now:
            return
        still_open = {*waiting, *(_about("", [one]) for one in self._state.questions)}
        if before and before not in {self._closed, *still_open}:
            self._gone, self._gone_until = GONE.format(_cut(before.shown)), self._clock() + GONE_SECONDS
        self._current, self._appeared = now, self._clock()

    def signal(self) -> bytes:
        """Return a bell and a notification, once for each question."""
        with self._lock:
            new = [one for one in self._state.questions if one.id not in self._called]
            self._called |= {one.id for one in new}
        return BELL + self._notification(f"{new[0].method} {new[0].host} waits for you") if new else b""

    def press(self, key: str) -> None:
        """Answer the question that was shown last, if it is still open; "escape" goes back to the agent."""
        with self._lock:
            shown = next((group for group in self._groups() if _about(*group) == self._current), None)
            settled = self._clock() - self._appeared >= SETTLE_SECONDS
        if shown is None and key == "escape":
            self._gone_until = 0.0
        if shown is None or self.connection is None:
            return
        name, several = shown
        if key not in _keys_for(name, several[0]):
            return
        if not settled:
            self._said = TOO_SOON
            return
        self._closed = self._current
        if key == "escape":
            self._later |= {one.id for one in several}
        else:
            self._said = self._answered(self.connection, key, several)

    def _answered(self, connection: Connection, key: str, several: Sequence[Question]) -> str:
        """Send the answers; return why that failed."""
        try:
            for question in several:
                if key in LAYERS:
                    connection.allow_quietly(question, LAYERS[key])
                else:
                    connection.answer_for(question, ANSWERS[key])
        except UserError as error:
            return "; ".join(map(str, error.problems))
        return ""


def _keys_for(name: str, question: Question) -> Sequence[str]:
    """Return the keys that mean something for a question, or for a group if it has a name."""
    if name:
        return ("d", "escape")
    return ("a", "d", "escape", *("hspu" if _fits(question) else ""))


def _single(question: Question) -> Iterator[str]:
    yield f"  {question.method} {_cut(question.url)}"
    if question.details:
        yield f"    with {question.details}"
    yield f"    {_cut(question.reason)}"
    if question.services:
        yield f"    allowed by the service {', or '.join(question.services)}"


def _keys(question: Question) -> Iterator[str]:
    yield ""
    yield "    a  allow this request, once"
    if _fits(question):
        yield f"    h  allow for an hour: {question.rule}"
        yield "    s  the same, until the sandbox stops"
        if question.fits_policy:
            yield "    p  the same, for the project: adds the line to policy.yaml"
            yield "    u  the same, for you: adds it to your own policy, for all your projects"
    yield "    d  deny, and do not ask about this host for ten minutes"


def _fits(question: Question) -> bool:
    """Return whether there is a rule to grant for longer, and it can be shown in full."""
    return 0 < len(question.rule) <= LONGEST_RULE


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_URL else f"{text[:LONGEST_URL]}..."


def _group(name: str, several: Sequence[Question]) -> Iterator[str]:
    hosts = sorted({one.host for one in several})
    yield f"  {len(hosts)} hosts under {name}"
    yield f"    {', '.join(hosts)[:300]}"
    yield ""
    yield "    d  deny them all; they cannot be allowed at once"


def _wrapped(lines: Iterable[str], width: int) -> list[str]:
    return [part for line in lines for part in _parts(line, width)]


def _parts(line: str, width: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _notification(environ: Mapping[str, str], text: str) -> bytes:
    """Return the escape sequence that makes this terminal show a desktop notification."""
    kind, shown = environ.get("TERM", ""), text[:LONGEST].encode("ascii", "replace")
    if kind in {"linux", "dumb", ""}:
        return b""
    if kind.startswith(("foot", "rxvt")) or "VTE_VERSION" in environ:
        return b"\x1b]777;notify;agent-sandbox;%s\x1b\\" % shown
    return b"\x1b]9;agent-sandbox: %s\x1b\\" % shown
