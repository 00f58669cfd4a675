import json
from typing import Any

from agent_sandbox import __version__
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.traffic.spans import is_span, span_of, traces
from log_lines import denied


def record(asked: str, **others: Any) -> Record:  # noqa: ANN401 - the fields of a line
    found = read_record(denied(asked, **others))
    assert found
    return found


def values(span: Any) -> dict[str, str]:  # noqa: ANN401 - JSON
    """Return the attributes by name, as a receiver reads them."""
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_a_request_is_a_span_without_its_path() -> None:
    secret = {"secret": "tracker.token", "kind": "bearer", "source": "stored", "age_s": 1}
    found = record(
        "PUT https://a.test:8443/secret-path",
        decision="allow",
        cause="",
        rule="policy.yaml:6",
        status=200,
        bytes_in=5,
        bytes_out=6,
        duration_ms=1500.5,
        client="172.18.0.3:40112",
        reason="allowed /secret-path",
        tool="npm",
        secrets=[secret],
    )
    span = span_of(found)
    assert (span["traceId"], span["spanId"], span["name"], span["kind"]) == (found.id, found.id[:16], "PUT", 3)
    assert (span["startTimeUnixNano"], span["endTimeUnixNano"]) == ("1767347998499500000", "1767348000000000000")
    assert span["status"] == {}
    assert values(span) == {
        "http.request.method": "PUT",
        "http.response.status_code": "200",
        "http.request.body.size": "6",
        "http.response.body.size": "5",
        "server.address": "a.test",
        "server.port": "8443",
        "url.scheme": "https",
        "agent_sandbox.event": "request",
        "agent_sandbox.decision": "allow",
        "agent_sandbox.rule": "policy.yaml:6",
        "agent_sandbox.tool": "npm",
    }
    assert not any(word in json.dumps(span) for word in ("secret-path", "tracker", "172.18"))


def test_a_denial_and_a_failed_request_are_errors() -> None:
    asked = "GET https://a.test/"
    allowed = {"decision": "allow", "cause": ""}
    made = [record(asked), record(asked, **allowed, status=404), record(asked, **allowed, status=301)]
    assert [span_of(one)["status"] for one in made] == [{"code": 2}, {"code": 2}, {}]
    assert values(span_of(made[0]))["agent_sandbox.cause"] == "host"


def test_a_span_is_named_by_a_known_method_or_the_event() -> None:
    names = [
        span_of(record("GET https://a.test/", **others))["name"]
        for others in ({}, {"method": "X" * 32}, {"event": "dns", "method": ""}, {"event": "websocket"})
    ]
    assert names == ["GET", "_OTHER", "dns", "GET"]
    assert "http.request.method" not in values(span_of(record("GET https://a.test/", event="dns", method="")))


def test_only_traffic_with_a_time_is_a_span() -> None:
    asked = "GET https://a.test/"
    assert is_span(record(asked))
    assert not is_span(record(asked, time="soon"))
    assert not any(is_span(record(asked, event=event)) for event in ("health", "start", "policy", "grant", "fault"))


def test_the_resource_of_spans_names_the_service_and_the_sandbox_as_instance() -> None:
    ((group,),) = traces("app-1", [record("GET https://a.test/")]).values()
    assert values(group["resource"]) == {"service.name": "agent-sandbox", "service.instance.id": "app-1"}
    ((scope),) = group["scopeSpans"]
    assert scope["scope"] == {"name": "agent_sandbox", "version": __version__}
    assert len(scope["spans"]) == 1
