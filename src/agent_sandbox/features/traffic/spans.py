"""Audit records as OpenTelemetry spans, in the JSON of OTLP. They have no path, query, header or name of a secret."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_sandbox import __version__
from agent_sandbox.audit_event import REQUESTS
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.features.traffic.wanted import OTHERS
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.http.method import STANDARD

CLIENT = 3  # SPAN_KIND_CLIENT
ERROR = 2  # STATUS_CODE_ERROR
UNKNOWN_METHOD = "_OTHER"
SPAN_DIGITS = 16
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

type Json = Mapping[str, Any]


def traces(sandbox: str, records: Iterable[Record]) -> Json:
    """Return the body of a request to `/v1/traces`."""
    resource = {"service.name": "agent-sandbox", "service.instance.id": sandbox}
    scope = {"name": "agent_sandbox", "version": __version__}
    spans = [span_of(record) for record in records]
    group = {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [{"scope": scope, "spans": spans}]}
    return {"resourceSpans": [group]}


def is_span(record: Record) -> bool:
    """Return whether a record is about traffic, and says when it was."""
    return record.event not in OTHERS and record.time != ""


def span_of(record: Record) -> Json:
    """Return one record as a span. Its trace has the ID of the record, as `agent-sandbox traffic show` takes it."""
    end = _nanoseconds(datetime.fromisoformat(record.time))
    method = record.method if record.method in STANDARD else UNKNOWN_METHOD
    failed = record.decision != Effect.ALLOW or (record.status or 0) >= 400
    return {
        "traceId": record.id,
        "spanId": record.id[:SPAN_DIGITS],
        "name": method if record.event in REQUESTS else record.event,
        "kind": CLIENT,
        "startTimeUnixNano": str(end - round(record.duration_ms * 1_000_000)),
        "endTimeUnixNano": str(end),
        "attributes": _attributes(_values(record, method)),
        "status": {"code": ERROR} if failed else {},
    }


def _values(record: Record, method: str) -> Mapping[str, str | int | None]:
    return {
        "http.request.method": method if record.method else None,
        "http.response.status_code": record.status,
        "http.request.body.size": record.bytes_out,
        "http.response.body.size": record.bytes_in,
        "server.address": record.host,
        "server.port": record.port,
        "url.scheme": record.scheme,
        "agent_sandbox.event": record.event,
        "agent_sandbox.decision": record.decision,
        "agent_sandbox.cause": record.cause,
        "agent_sandbox.rule": record.rule,
        "agent_sandbox.tool": record.tool,
    }


def _attributes(values: Mapping[str, str | int | None]) -> list[Json]:
    return [*_present(values)]


def _present(values: Mapping[str, str | int | None]) -> Iterator[Json]:
    for key, value in values.items():
        if isinstance(value, int):
            yield {"key": key, "value": {"intValue": str(value)}}  # 64 bits are text in JSON
        elif value:
            yield {"key": key, "value": {"stringValue": value}}


def _nanoseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1) * 1_000
