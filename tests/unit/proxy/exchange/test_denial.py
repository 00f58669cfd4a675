import json

from msgspec.structs import replace

from agent_sandbox.proxy.exchange.denial import Denial, Page, page, reason_phrase
from table_tests import each

DENIAL = Denial(
    reason="method POST is not allowed",
    host="a.test",
    method="POST",
    path="/x",
    rule="policy.yaml:3",
    near_miss="policy.yaml:3 allows GET",
    hint="add a rule",
)


def test_a_client_that_accepts_json_gets_every_field() -> None:
    got = page(DENIAL, "application/json, */*")
    assert json.loads(got.body) == {
        "blocked": True,
        "host": "a.test",
        "method": "POST",
        "path": "/x",
        "reason": "method POST is not allowed",
        "rule": "policy.yaml:3",
        "near_miss": "policy.yaml:3 allows GET",
        "hint": "add a rule",
        "help": "http://agent-sandbox.internal/",
        "message": "Blocked by agent-sandbox: method POST is not allowed; to allow it: add a rule",
    }
    assert got.status == 403
    assert got.fields == (
        (b"x-agent-sandbox", b"blocked"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(got.body)),
        (b"cache-control", b"no-store"),
    )


@each("seconds", [0, 1, 60, 61, 86_400])
def test_sends_retry_after_up_to_one_minute(seconds: int) -> None:
    fields = dict(page(replace(DENIAL, retry_seconds=seconds)).fields)
    assert fields.get(b"retry-after") == (b"%d" % seconds if 0 < seconds <= 60 else None)


def test_a_client_that_names_no_format_gets_json() -> None:
    assert page(DENIAL).fields[1] == (b"content-type", b"application/json")


def test_a_client_that_accepts_any_format_gets_plain_text() -> None:
    assert page(DENIAL, "*/*").body.decode().splitlines() == [
        "Blocked by agent-sandbox: POST a.test/x",
        "Reason: method POST is not allowed",
        "Rule: policy.yaml:3",
        "Nearest rule: policy.yaml:3 allows GET",
        "To allow it: add a rule",
        "About this sandbox: http://agent-sandbox.internal/",
    ]


def test_plain_text_omits_unknown_fields_and_repetitions() -> None:
    denial = Denial(reason="no rule: nearest", host="a.test", near_miss="nearest", status=502)
    assert page(denial, "text/html").body.decode().splitlines() == [
        "Not forwarded by agent-sandbox: a.test",
        "Reason: no rule: nearest",
        "About this sandbox: http://agent-sandbox.internal/",
    ]
    assert page(denial).fields[0] == (b"x-agent-sandbox", b"failed")


def test_plain_text_escapes_control_characters_in_the_path() -> None:
    body = page(Denial(reason="x", host="a.test", path="/\r\n\x1b[31m\udc80"), "*/*").body
    assert body.startswith(b"Blocked by agent-sandbox: a.test/\\x0d\\x0a\\x1b[31m\\udc80\nReason: x\n")


def test_a_page_in_http1_closes_the_connection() -> None:
    got = Page(431, ((b"a", b"b"),), b"body").http1()
    assert got == b"HTTP/1.1 431 Request Header Fields Too Large\r\na: b\r\nconnection: close\r\n\r\nbody"


def test_a_reason_phrase_is_one_bounded_line_of_ascii() -> None:
    told = reason_phrase(Denial(reason="no \r\nrule: é" + "x" * 1_000))
    assert told == (rb"Blocked by agent-sandbox: no \x0d\x0arule: \xe9" + b"x" * 1_000)[:300]


def test_a_page_in_http1_can_have_its_own_reason_phrase() -> None:
    assert page(Denial(reason="no")).http1(b"Blocked").startswith(b"HTTP/1.1 403 Blocked\r\n")


def test_the_denial_of_an_mcp_message_is_a_json_rpc_error() -> None:
    body = json.loads(page(Denial(reason="no", is_mcp=True, mcp_id=7), "*/*").body)
    assert (body["jsonrpc"], body["id"], body["reason"]) == ("2.0", 7, "no")
    assert body["error"] == {"code": -32003, "message": "Blocked by agent-sandbox: no"}
