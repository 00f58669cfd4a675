"""A decision of the proxy as one line, with its effect coloured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_sandbox.cli.terminal.style import Styled, styled
from agent_sandbox.features.proxy.decisions import as_text

EFFECTS = ("allow", "deny")
# The widest column of time, effect and request; a longer one shifts only its own line.
WIDEST = 60

type Record = Mapping[str, Any]


def decision_line(record: Record) -> Styled:
    """Return an audit record as a line: time, effect, request, reason."""
    return _line(as_text(record))


def decision_table(records: Sequence[Record]) -> Iterator[Styled]:
    """Yield such lines with the reasons below each other."""
    rows = [as_text(record).split("  ", 3) for record in records]
    texts = [("  ".join(row[:-1]), row[-1]) if len(row) > 3 else ("  ".join(row), "") for row in rows]
    width = min(max((len(request) for request, _ in texts), default=0), WIDEST)
    for request, reason in texts:
        yield _line(f"  {request:<{width}}  {reason}".rstrip())


def _line(text: str) -> Styled:
    before = text[: len(text) - len(text.lstrip())]
    time, space, rest = text.lstrip().partition("  ")
    effect = next((effect for effect in EFFECTS if rest.startswith(f"{effect} ")), "")
    return styled(f"{before}{time}{space}", (effect, effect), rest[len(effect) :])
