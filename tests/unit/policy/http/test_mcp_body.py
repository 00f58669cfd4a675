import json
from typing import Any

from agent_sandbox.policy import Request, parse_request
from agent_sandbox.policy.http.mcp_body import MAX_BODY, TOO_LONG, read_message, with_message, with_message_of_head
from agent_sandbox.policy.http.mcp_message import ANSWER, CALL, END, STREAM, McpMessage
from table_tests import each

JSON, STREAMING = ("content-type", "application/json"), ("accept", "application/json, TEXT/event-stream")
SESSION = ("mcp-session-id", "1")
NOT_JSON = "not exactly `content-type: application/json` without a content encoding"
IDS: tuple[object, ...] = (None, True, 1.0, 1 << 53, "x" * 257, [])
BAD_ID = "an `id` that is not a short text or a whole number"


def request_of(
    method: str, *headers: tuple[str, str], query: str = "", body_size: int | None = None, path: str = "/mcp"
) -> Request:
    return parse_request(
        scheme="https",
        host="a.test",
        port=443,
        method=method,
        target=f"{path}?{query}" if query else path,
        headers=headers,
        body_size=body_size,
    )


def rpc(**said: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, **said}


def call(name: object, **params: object) -> dict[str, Any]:
    return rpc(method=CALL, params={"name": name, **params})


@each(
    ("said", "message"),
    [
        (call("search"), McpMessage(method=CALL, tool="search")),
        (call("a.b/c:d-e_f", arguments={}, _meta={}), McpMessage(method=CALL, tool="a.b/c:d-e_f")),
        (call("a", arguments=None, task={}, requestState="x", inputResponses={}), McpMessage(method=CALL, tool="a")),
        (call("a", inputResponses={"x": {}}), McpMessage(method=CALL, tool="a", answers=True)),
        (rpc(method="ping"), McpMessage(method="ping")),
        (rpc(method="x/unknown", params={}), McpMessage(method="x/unknown")),
        (rpc(method="ping", id="a"), McpMessage(method="ping")),
        ({"jsonrpc": "2.0", "method": "notifications/x"}, McpMessage(method="notifications/x")),
        (rpc(result={}), McpMessage(method=ANSWER)),
        (rpc(error={"code": 1}), McpMessage(method=ANSWER)),
        (rpc(result={"a": 1}), McpMessage(method=ANSWER, answers=True)),
    ],
)
def test_parses_a_message_to_method_and_tool(said: object, message: McpMessage) -> None:
    assert read_message(json.dumps(said).encode()) == message


@each(
    ("said", "doubt"),
    [
        ([], "a body that is not one JSON-RPC message"),
        ([call("a")], "a body that is not one JSON-RPC message"),
        (rpc(Method="ping"), "a key that JSON-RPC does not have"),
        ({"id": 1, "method": "ping"}, "not JSON-RPC 2.0"),
        (rpc(jsonrpc=2.0, method="ping"), "not JSON-RPC 2.0"),
        (rpc(method=1), "an invalid `method`"),
        (rpc(method="tools/call\u0000"), "an invalid `method`"),
        (rpc(method="stream"), "an invalid `method`"),
        (rpc(method="end of session"), "an invalid `method`"),
        (rpc(method="answer"), "an invalid `method`"),
        (rpc(method="ping", result={}), "a `method` together with a `result` or an `error`"),
        (rpc(method="ping", error={}), "a `method` together with a `result` or an `error`"),
        (rpc(method="roots/list"), "`roots/list`, which only servers call"),
        (rpc(method="notifications/initialized"), "a notification with an `id`"),
        ({"jsonrpc": "2.0", "method": "ping"}, BAD_ID),
        *((rpc(method="ping", id=id_), BAD_ID) for id_ in IDS),
        (rpc(method="ping", params=[]), "`params` that are not an object"),
        (rpc(method=CALL), "an invalid name of a tool"),
        *((call(name), "an invalid name of a tool") for name in ("", "a b", "read_*", "\u017fearch", 1, "x" * 129)),
        (call("a", Name="b"), "a key that the params of `tools/call` do not have"),
        (call("a", arguments=[]), "`arguments` that are not an object"),
        (rpc(), "neither a request nor an answer"),
        (rpc(result={}, error={}), "neither a request nor an answer"),
        (rpc(result={}, params={}), "neither a request nor an answer"),
        (rpc(result=[]), "an answer that is not an object"),
        (rpc(result={}, id=None), BAD_ID),
    ],
)
def test_a_message_that_two_servers_could_read_differently_is_ambiguous(said: object, doubt: str) -> None:
    assert read_message(json.dumps(said).encode()) == McpMessage(doubt=doubt)


def test_a_body_that_is_not_json_or_too_large_is_ambiguous() -> None:
    assert read_message(b"{") == McpMessage(doubt="a body that is not JSON in UTF-8")
    assert read_message(b" " * (MAX_BODY + 1)) == McpMessage(doubt=TOO_LONG)


def test_keeps_the_id_of_a_request() -> None:
    assert [read_message(json.dumps(one).encode()).id for one in (call("a"), rpc(method="ping", id="x"))] == [1, "x"]


@each(
    ("request_", "message"),
    [
        (request_of("POST", JSON), None),
        (request_of("POST", JSON, query="sessionId=1", body_size=9), None),
        (request_of("GET", STREAMING, body_size=0), McpMessage(method=STREAM)),
        (request_of("GET", STREAMING), None),
        (request_of("DELETE", SESSION, body_size=0), McpMessage(method=END)),
        (request_of("DELETE", body_size=0), McpMessage(doubt="a DELETE without `mcp-session-id`")),
        (request_of("DELETE", SESSION, body_size=1), McpMessage(doubt="a DELETE with a body")),
        (request_of("GET", body_size=0), McpMessage(doubt="a GET that does not accept `text/event-stream`")),
        (request_of("GET", STREAMING, body_size=1), McpMessage(doubt="a GET with a body")),
        (request_of("GET", STREAMING, query="p%61rams=x"), McpMessage(doubt="a query that names a call")),
        (request_of("POST", JSON, query="x=1&JSONRPC=2.0"), McpMessage(doubt="a query that names a call")),
        (request_of("POST", JSON, body_size=0), McpMessage(doubt="no body")),
        (request_of("POST", JSON, body_size=MAX_BODY + 1), McpMessage(doubt=TOO_LONG)),
        (request_of("POST"), McpMessage(doubt=NOT_JSON)),
        (request_of("PUT", JSON), McpMessage(doubt="the method PUT")),
    ],
)
def test_classifies_requests_without_a_body_and_ambiguous_requests_by_the_head(
    request_: Request, message: McpMessage | None
) -> None:
    assert with_message_of_head(request_).message == message


@each(
    ("headers", "said", "message"),
    [
        ((), call("a"), McpMessage(method=CALL, tool="a")),
        (
            (("mcp-method", "tools/call"), ("mcp-name", "a")),
            call("a"),
            McpMessage(method=CALL, tool="a"),
        ),
        ((("mcp-name", "b"),), call("a"), McpMessage(doubt="the header `mcp-name` does not agree with the body")),
        ((("mcp_name", "b"),), call("a"), McpMessage(doubt="the header `mcp-name` does not agree with the body")),
        (
            (("mcp-name", "a"), ("mcp-name", "a")),
            call("a"),
            McpMessage(doubt="the header `mcp-name` does not agree with the body"),
        ),
        (
            (("mcp-method", "tools/call"),),
            rpc(method="ping"),
            McpMessage(doubt="the header `mcp-method` does not agree with the body"),
        ),
        ((("mcp-name", "x"),), rpc(method="resources/read"), McpMessage(method="resources/read")),
        ((("mcp-name", "x"),), [], McpMessage(doubt="a body that is not one JSON-RPC message")),
    ],
)
def test_headers_that_repeat_the_message_must_agree_with_it(
    headers: tuple[tuple[str, str], ...], said: object, message: McpMessage
) -> None:
    assert with_message(request_of("POST", JSON, *headers), json.dumps(said).encode()).message == message


def test_a_body_that_arrives_with_a_get_must_be_empty() -> None:
    request = request_of("GET", STREAMING)
    assert with_message(request, b"").message == McpMessage(method=STREAM)
    assert with_message(request, b"x").message == McpMessage(doubt="a GET with a body")
