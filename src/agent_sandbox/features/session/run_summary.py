"""Render the summary of one run as JSON and Markdown. Much of its text comes from the sandbox."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct, field, to_builtins

from agent_sandbox.audit_event import Event
from agent_sandbox.features.clones.fetched import Fetched
from agent_sandbox.features.clones.fetched import as_json as fetched_json
from agent_sandbox.features.proxy.decisions import asked
from agent_sandbox.features.review.changes import Change, Found
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.policy.decision import Effect
from agent_sandbox.printable import printable, printable_lines
from agent_sandbox.size_text import size_text

# The end of what the agent printed is kept: it says what it did.
MOST_RESULT = 1 << 20
# An agent can make any number of different requests: those beyond this number are counted only in the sum.
MOST_DENIALS = 10_000
SHOWN = 20
LONGEST = 200
# Of the result in the Markdown; GitHub takes 1 MiB for each step.
MOST_MARKDOWN = 60_000


class Output(Struct):
    """The end of what a program printed."""

    data: bytearray = bytearray()
    truncated: bool = False

    def add(self, data: bytes) -> None:
        """Add a part."""
        self.data += data
        if len(self.data) > 2 * MOST_RESULT:
            self._cut()

    @property
    def text(self) -> str:
        """The text; bytes that are not UTF-8 are replaced."""
        self._cut()
        return self.data.decode("utf-8", "replace")

    def _cut(self) -> None:
        if len(self.data) > MOST_RESULT:
            del self.data[:-MOST_RESULT]
            self.truncated = True


class Traffic(Struct):
    """The requests that ended during the run."""

    allowed: int = 0
    denied: int = 0
    sent: int = 0
    received: int = 0
    denials: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        """Count a record. The end of a WebSocket is not a request: its beginning was counted."""
        self.sent += record.bytes_out
        self.received += record.bytes_in
        if record.event == Event.WEBSOCKET:
            return
        if record.decision != Effect.DENY:
            self.allowed += 1
            return
        self.denied += 1
        what = (_short(asked(to_builtins(record))), _short(record.reason))
        if what in self.denials or len(self.denials) < MOST_DENIALS:
            self.denials[what] += 1


class Summary(Struct, frozen=True, kw_only=True):
    """One run of an agent. `traffic` is None if the proxy did not answer.

    `clone` is what was fetched from the clone that was made for the run, None without one, or if that failed.
    """

    project: str
    agent: str
    exit_code: int
    seconds: float
    output: Output
    traffic: Traffic | None
    review: Found
    clone: Fetched | None = None


def as_json(run: Summary) -> dict[str, Any]:
    """Return the summary for `--json`."""
    traffic = run.traffic
    return {
        "project": run.project,
        "agent": run.agent,
        "exit_code": run.exit_code,
        "problems": [],
        "seconds": round(run.seconds, 1),
        "result": run.output.text,
        "result_truncated": run.output.truncated,
        "requests": {"allowed": traffic.allowed, "denied": traffic.denied} if traffic else None,
        "bytes": {"sent": traffic.sent, "received": traffic.received} if traffic else None,
        "denials": [
            {"request": request, "reason": reason, "count": count} for (request, reason), count in _denials(traffic)
        ],
        "review": {
            "changes": [
                {"path": one.path, "kind": one.kind.name, "how": str(one.how), "notes": list(one.notes)}
                for one in run.review.changes
            ],
            "complete": run.review.complete,
        },
        "clone": {**fetched_json(run.clone), "kept": not run.clone.has_all} if run.clone else None,
    }


def as_markdown(run: Summary) -> str:
    """Return the summary for GitHub; text from the sandbox can neither format it nor link anywhere."""
    numbers = {
        "Exit code": str(run.exit_code),
        "Time": f"{run.seconds:.0f} s",
        **(_traffic_cells(run.traffic) if run.traffic else {}),
        "To review": str(len(run.review.changes)) if run.review.complete else f"{len(run.review.changes)} or more",
    }
    parts = [f"## {_literal(run.agent)} in agent-sandbox", _table(tuple(numbers), [tuple(numbers.values())])]
    if denials := _denials(run.traffic):
        rows = [(_literal(request), str(count), _literal(reason)) for (request, reason), count in denials]
        parts += ["### Denied", _table(("Request", "Times", "Reason"), rows)]
    if run.clone and run.clone.branches:
        parts += ["### Fetched", _fetched(run.clone)]
    if run.review.changes:
        parts += ["### Review before you run it", *_changes(run.review.changes)]
    if text := run.output.text.strip():
        parts += ["### Result", _fenced(text)]
    return "\n\n".join(parts) + "\n"


def _fetched(clone: Fetched) -> str:
    rows = [(_literal(f"box/{clone.clone.name}/{one.name}"), str(one.new)) for one in clone.branches[:SHOWN]]
    more = len(clone.branches) - SHOWN
    return _table(("Branch", "New commits"), rows) + (f"\n\nand {more} more" if more > 0 else "")


def _traffic_cells(traffic: Traffic) -> Mapping[str, str]:
    return {
        "Requests": str(traffic.allowed + traffic.denied),
        "Denied": str(traffic.denied),
        "Sent": size_text(traffic.sent),
        "Received": size_text(traffic.received),
    }


def _denials(traffic: Traffic | None) -> Sequence[tuple[tuple[str, str], int]]:
    return traffic.denials.most_common(SHOWN) if traffic else ()


def _changes(changes: Iterable[Change]) -> Iterable[str]:
    for kind, group in groupby(sorted(changes, key=lambda one: one.kind.name), key=lambda one: one.kind):
        found = list(group)
        lines = [f"- {one.how}: {_literal(_short(one.path))}" for one in found[:SHOWN]]
        more = [f"- and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        yield "\n".join((f"{kind.name}: {kind.why}", "", *lines, *more))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (headings, ["---"] * len(headings), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _literal(text: str) -> str:
    """Return text that Markdown shows as it is.

    >>> _literal("a|`b`")
    'a&#124;&#96;b&#96;'
    """
    return "".join(sign if sign.isalnum() or sign in " /-" else f"&#{ord(sign)};" for sign in printable(text))


def _fenced(text: str) -> str:
    """Return the end of a text as a block of code that nothing in it can end."""
    shown = printable_lines(text[-MOST_MARKDOWN:].replace("\r\n", "\n"))
    longest = max((len(list(run)) for sign, run in groupby(shown) if sign == "`"), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"
