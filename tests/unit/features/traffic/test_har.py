import json
import warnings

from agent_sandbox import __version__
from agent_sandbox.features.traffic.har import har
from agent_sandbox.features.traffic.record import read_record
from log_lines import denied
from table_tests import each

LINES = (
    denied(
        "POST https://a.test:8443/i?",
        path="/i",
        decision="allow",
        status=201,
        duration_ms=1500.0,
        bytes_in=3,
        bytes_out=4,
    ),
    denied("GET http://x/", host="2001:db8::1", port=80, status=403, duration_ms=0),
    denied("GET https://a.test/", event="connect"),
    denied("GET https://a.test/", time=""),
    denied("GET https://a.test/", time="0001-01-01T00:00:00Z", duration_ms=9e9, scheme="", port=None),
)
# HAR 1.2: the fields that each object must have, with their types.
NUMBER = (int, float)
HEAD = {"httpVersion": str, "cookies": list, "headers": list, "headersSize": NUMBER, "bodySize": NUMBER}
REQUIRED: dict[str, dict[str, object]] = {
    "log": {"version": str, "creator": dict, "entries": list},
    "creator": {"name": str, "version": str},
    "entry": {
        "startedDateTime": str,
        "time": NUMBER,
        "request": dict,
        "response": dict,
        "cache": dict,
        "timings": dict,
    },
    "request": {"method": str, "url": str, "queryString": list, **HEAD},
    "response": {"status": int, "statusText": str, "content": dict, "redirectURL": str, **HEAD},
    "content": {"size": NUMBER, "mimeType": str},
    "timings": {"send": NUMBER, "wait": NUMBER, "receive": NUMBER},
}


def entries() -> list[dict[str, object]]:
    document = har(record for record in map(read_record, LINES) if record)
    found: list[dict[str, object]] = document["log"]["entries"]
    return found


def faults(name: str, value: object) -> list[str]:
    """Return the fields that are missing, have another type, or are not part of the format."""
    assert isinstance(value, dict)
    wanted = REQUIRED[name]
    wrong = [f"{name}.{key}" for key, kind in wanted.items() if not isinstance(value.get(key), kind)]  # type: ignore[arg-type] # types, all of them
    wrong += [f"{name}.{key}" for key in value if key not in wanted and not key.startswith("_")]
    return wrong + [fault for key in wanted.keys() & REQUIRED.keys() for fault in faults(key, value.get(key))]


def test_the_document_has_every_field_that_har_requires_and_no_other() -> None:
    document = har(record for record in map(read_record, LINES) if record)
    assert faults("log", document["log"]) == []
    assert [fault for entry in document["log"]["entries"] for fault in faults("entry", entry)] == []
    assert document["log"]["creator"] == {"name": "agent-sandbox", "version": __version__}


def test_contains_only_requests_with_a_time() -> None:
    assert [entry["startedDateTime"] for entry in entries()] == [
        "2026-01-02T09:59:58.500Z",
        "2026-01-02T10:00:00.000Z",
        "0001-01-01T00:00:00.000Z",
    ]


def test_a_url_has_the_port_if_it_is_not_the_default() -> None:
    requests = [entry["request"] for entry in entries()]
    assert [request["url"] for request in requests if isinstance(request, dict)] == [
        "https://a.test:8443/i",
        "http://[2001:db8::1]/",
        "https://a.test/",
    ]


def test_mitmproxy_reads_the_requests() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of mitmproxy's imports
        from mitmproxy.io.har import request_to_flow  # noqa: PLC0415 - as said
    flows = [request_to_flow(json.loads(json.dumps(entry))) for entry in entries()]
    found = [(flow.request.method, flow.request.host, flow.response and flow.response.status_code) for flow in flows]
    assert found == [
        ("POST", "a.test", 201),
        ("GET", "2001:db8::1", 403),
        ("GET", "a.test", 0),
    ]


@each("word", ["hunter2", "172.18.0.3"])
def test_contains_no_secret_and_no_address_of_the_sandbox(word: str) -> None:
    line = denied("GET https://a.test/", client="172.18.0.3:1", secrets=[{"secret": "hunter2", "kind": "bearer"}])
    record = read_record(line)
    assert record is not None
    assert word not in json.dumps(har([record]))
