"""Format audit records as text."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from agent_sandbox.audit_event import CHECKS
from agent_sandbox.bounded_json import read_json
from agent_sandbox.policy.http.request import DEFAULT_PORTS

SCHEMES = {port: scheme for scheme, port in DEFAULT_PORTS.items()}


def is_probe(line: Mapping[str, Any]) -> bool:
    """Return whether this is one of the stack's own requests."""
    return line.get("event") in CHECKS


def read_line(text: str) -> Mapping[str, Any] | None:
    """Return a line as an audit record, or None if it is not one."""
    try:
        value = read_json(text[max(text.find("{"), 0) :])
    except ValueError:
        return None
    return value if isinstance(value, dict) and "decision" in value else None


def as_text(line: Mapping[str, Any], *, zone: tzinfo | None = None) -> str:
    """Return a decision as one line (time, request, reason), in `zone` or the local time zone."""
    parts = (
        local_time(str(line.get("time", "")), zone=zone, shape="%H:%M:%S"),
        f"{line.get('decision', ''):<5}",
        asked(line),
    )
    return "  ".join((*parts, why(line))).rstrip()


def why(line: Mapping[str, Any]) -> str:
    """Return the reason of a decision, and the hint about it if there is one."""
    hint = f"hint: {line['hint']}" if line.get("hint") else ""
    return "; ".join(filter(None, (str(line.get("reason") or ""), hint)))


def asked(line: Mapping[str, Any]) -> str:
    """Return what was asked for: method and URL, with the MCP message in it; or the event if there is no host."""
    if not line.get("host"):
        return str(line.get("event", ""))
    port = line.get("port")
    scheme = SCHEMES.get(port) if isinstance(port, int) else None
    where = f"{scheme}://{line['host']}" if scheme else f"{line['host']}:{port}"
    message = f" ({line['mcp']})" if line.get("mcp") else ""
    return f"{line.get('method') or line.get('event', '')} {where}{line.get('path') or ''}{message}"


def local_time(time: str, *, zone: tzinfo | None = None, shape: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time of the proxy, which is in UTC, in `zone` or the local time zone; other text as it is.

    >>> local_time("2026-01-02T10:00:00.000Z", zone=UTC), local_time("never")
    ('2026-01-02 10:00:00', 'never')
    """
    try:
        return datetime.fromisoformat(time).replace(tzinfo=UTC).astimezone(zone).strftime(shape)
    except (ValueError, OverflowError):
        return time
