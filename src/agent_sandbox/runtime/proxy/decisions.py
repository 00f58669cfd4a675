"""The proxy's log lines, for people."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from agent_sandbox.bounded_json import read_json

PORTS = {443: "https", 80: "http"}
# What the stack asks of itself: the proxy's health check, and the agent's at its start. The proxy says which it was.
PROBES = frozenset({"health", "start"})


def is_probe(line: Mapping[str, Any]) -> bool:
    """Return whether the stack asked this of itself."""
    return line.get("event") in PROBES


def read_line(text: str) -> Mapping[str, Any] | None:
    """Return a log line as data, or None where it is something else."""
    try:
        value = read_json(text[max(text.find("{"), 0) :])
    except ValueError:
        return None
    return value if isinstance(value, dict) and "decision" in value else None


def as_text(line: Mapping[str, Any], *, zone: tzinfo | None = None) -> str:
    """Return a decision as one line: when, what, why; in `zone`, or in this machine's."""
    parts = (_clock(str(line.get("time", "")), zone), f"{line.get('decision', ''):<5}", _asked(line))
    reason = line.get("reason") or ""
    return "  ".join((*parts, str(reason))).rstrip()


def _asked(line: Mapping[str, Any]) -> str:
    if not line.get("host"):
        return str(line.get("event", ""))
    port = line.get("port")
    scheme = PORTS.get(port) if isinstance(port, int) else None
    where = f"{scheme}://{line['host']}" if scheme else f"{line['host']}:{port}"
    return f"{line.get('method') or line.get('event', '')} {where}{line.get('path') or ''}"


def _clock(time: str, zone: tzinfo | None) -> str:
    try:
        return datetime.fromisoformat(time).replace(tzinfo=UTC).astimezone(zone).strftime("%H:%M:%S")
    except ValueError:
        return time
