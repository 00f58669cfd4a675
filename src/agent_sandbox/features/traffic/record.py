"""An audit record, read back: typed, bounded, and with an ID. Much of its text comes from the sandbox."""

import hashlib
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct

from agent_sandbox.features.proxy.decisions import read_line

LONGEST = 4_096  # of a text; the proxy writes shorter ones
LARGEST = 1 << 53  # of a number: what JSON and SQLite have in common
MOST_SECRETS = 32
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)
ID_DIGITS = 32
SHORT_DIGITS = 8  # of an ID in a table; every beginning of this length or more is accepted
TEXTS = (
    "event",
    "decision",
    "rule",
    "cause",
    "reason",
    "scheme",
    "host",
    "method",
    "path",
    "tool",
    "mcp",
    "client",
    "hint",
    "headers",
)


class Use(Struct, frozen=True, kw_only=True):
    """A secret in a request, by name."""

    secret: str
    kind: str
    source: str
    age_s: int


class Record(Struct, frozen=True, kw_only=True):
    """The fields have the names of the log. `id` is the beginning of the line's SHA-256 hash.

    `time` is in UTC, empty if the log has none; so is every other text.
    """

    id: str
    time: str
    event: str
    decision: str
    rule: str
    cause: str
    reason: str
    scheme: str
    host: str
    port: int | None
    method: str
    path: str
    status: int | None
    tool: str
    mcp: str
    bytes_in: int
    bytes_out: int
    duration_ms: float
    client: str
    secrets: tuple[Use, ...] = ()
    hint: str = ""
    headers: str = ""


def read_record(text: str) -> Record | None:
    """Return a line of the audit log as a record, None if it is not one."""
    values = read_line(text)
    if values is None:
        return None
    line = text[max(text.find("{"), 0) :].strip()
    return record_of(values, id_=hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:ID_DIGITS])


def record_of(values: Mapping[str, Any], *, id_: str = "") -> Record:
    """Return the values of an audit record as a record, with the hash of its line if it is known."""
    return Record(
        id=id_,
        time=_time(values.get("time")),
        **{name: _text(values.get(name)) for name in TEXTS},
        port=_number(values.get("port")),
        status=_number(values.get("status")),
        bytes_in=_number(values.get("bytes_in")) or 0,
        bytes_out=_number(values.get("bytes_out")) or 0,
        duration_ms=_duration(values.get("duration_ms")),
        secrets=_uses(values.get("secrets")),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}... ({len(value)} characters)"


def _time(value: object) -> str:
    with suppress(ValueError):
        if isinstance(value, str) and TIME.fullmatch(value):
            datetime.fromisoformat(value)  # a month has no day 99
            return value
    return ""


def _number(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
    return int(value) if fits else None  # type: ignore[call-overload] # `fits` says that it is a number


def _duration(value: object) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
    return float(number) if math.isfinite(number) and 0 <= number <= LARGEST else 0.0


def _uses(value: object) -> tuple[Use, ...]:
    rows = value if isinstance(value, list) else ()
    return tuple(_use(row) for row in rows[:MOST_SECRETS] if isinstance(row, dict))


def _use(row: Mapping[str, Any]) -> Use:
    texts = {name: _text(row.get(name)) for name in ("secret", "kind", "source")}
    return Use(**texts, age_s=_number(row.get("age_s")) or 0)
