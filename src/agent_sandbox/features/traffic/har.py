"""Requests in the format HAR 1.2, for browsers and other viewers. It has no bodies, headers, queries or secrets."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_sandbox import __version__
from agent_sandbox.audit_event import REQUESTS
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.policy.http.request import DEFAULT_PORTS

UNKNOWN = -1  # a size or a time, as the format writes it
NO_HEADERS: dict[str, Any] = {"httpVersion": "", "cookies": [], "headers": [], "headersSize": UNKNOWN}


def har(records: Iterable[Record]) -> dict[str, Any]:
    """Return the requests among the records as a HAR document; fields with `_` are our own."""
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "agent-sandbox", "version": __version__},
            "entries": [_entry(one) for one in records if one.event in REQUESTS and one.host and one.time],
        }
    }


def _entry(record: Record) -> dict[str, Any]:
    return {
        "startedDateTime": _started(record),
        "time": record.duration_ms,
        "request": {
            "method": record.method,
            "url": _url(record),
            "queryString": [],
            "bodySize": record.bytes_out,
            **NO_HEADERS,
        },
        "response": {
            "status": record.status or 0,
            "statusText": "",
            "content": {"size": record.bytes_in, "mimeType": ""},
            "redirectURL": "",
            "bodySize": record.bytes_in,
            **NO_HEADERS,
        },
        "cache": {},
        "timings": {"send": 0, "wait": record.duration_ms, "receive": 0},
        "_id": record.id,
        "_decision": record.decision,
        "_rule": record.rule,
        "_reason": record.reason,
    }


def _started(record: Record) -> str:
    """Return when the request began: the log has when it ended."""
    ended = datetime.fromisoformat(record.time)
    try:
        began = ended - timedelta(milliseconds=record.duration_ms)
    except OverflowError:
        began = ended
    return began.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _url(record: Record) -> str:
    host = f"[{record.host}]" if ":" in record.host else record.host
    port = "" if record.port in (None, DEFAULT_PORTS.get(record.scheme)) else f":{record.port}"
    return f"{record.scheme or 'https'}://{host}{port}{record.path}"
