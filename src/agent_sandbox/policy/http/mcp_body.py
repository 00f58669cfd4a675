"""Parse the MCP message of a request: the body of a POST, or what a GET or DELETE is for. Ambiguous ones are denied.

Strict on purpose, like the parser of GraphQL bodies: servers differ in how they read batches, repeated keys and keys in
other cases.
"""

import re
from typing import Any

from msgspec.structs import replace

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.bounds import MAX_MESSAGE, too_large
from agent_sandbox.policy.http.json_body import NOT_PLAIN_JSON, is_plain_json, read_plain_json
from agent_sandbox.policy.http.mcp_message import ANSWER, ANSWERED, CALL, END, STREAM, TOOL, McpMessage
from agent_sandbox.policy.http.query import has_parameter
from agent_sandbox.policy.http.request import Request

MAX_BODY, TOO_LONG = MAX_MESSAGE, too_large(MAX_MESSAGE)
NOTIFICATION = "notifications/"
METHOD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,63}", re.ASCII)
# These say in `McpMessage.method` what is not a request, and are always allowed.
NO_METHODS = frozenset({STREAM, END, ANSWER})
KEYS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
OF_A_CALL = frozenset({"name", "arguments", "_meta", "task", "inputResponses", "requestState"})
# JSON-RPC over GET, which MCP does not have, puts these into the query.
IN_A_QUERY = ("jsonrpc", "method", "params")
LONGEST_ID, LARGEST_ID = 256, 1 << 53


def with_message_of_head(request: Request) -> Request:
    """Return the request; if its head decides it, with its MCP message, or why it cannot be one."""
    if request.method in {"GET", "DELETE"}:
        found = _of_bodyless(request)
    else:
        doubt = _doubt(request)
        found = McpMessage(doubt=doubt) if doubt else None
    return replace(request, message=found) if found else request


def with_message(request: Request, body: bytes) -> Request:
    """Return the request with the MCP message in its body."""
    checked = with_message_of_head(replace(request, body_size=len(body)))
    return checked if checked.message else replace(checked, message=_agreeing(read_message(body), checked))


def _of_bodyless(request: Request) -> McpMessage | None:
    """Return the message of a GET or DELETE; None if it may have a body, which has to be empty."""
    if _names_a_call(request):
        return McpMessage(doubt="a query that names a call")
    if request.method == "GET" and "text/event-stream" not in _header(request, "accept").lower():
        return McpMessage(doubt="a GET that does not accept `text/event-stream`")
    if request.method == "DELETE" and not _header(request, "mcp-session-id"):
        return McpMessage(doubt="a DELETE without `mcp-session-id`")
    if request.body_size:
        return McpMessage(doubt=f"a {request.method} with a body")
    what = STREAM if request.method == "GET" else END
    return McpMessage(method=what) if request.body_size == 0 else None


def _doubt(request: Request) -> str:
    if request.method != "POST":
        return f"the method {request.method}"
    if request.body_size == 0:
        return "no body"
    if (request.body_size or 0) > MAX_BODY:
        return TOO_LONG
    if _names_a_call(request):
        return "a query that names a call"
    return "" if is_plain_json(request.headers) else NOT_PLAIN_JSON


def _names_a_call(request: Request) -> bool:
    return bool(request.query) and any(has_parameter(request.query, name) for name in IN_A_QUERY)


def _header(request: Request, name: str) -> str:
    return ", ".join(value for found, value in request.headers if found.lower() == name)


def _agreeing(message: McpMessage, request: Request) -> McpMessage:
    """Return the message, which headers may repeat: some servers decide by those."""
    said: dict[str, list[str]] = {"mcp-method": [], "mcp-name": []}
    for name, value in request.headers:
        said.get(name.lower().replace("_", "-"), []).append(value.strip(" \t"))
    for name, values in said.items():
        wanted = message.method if name == "mcp-method" else message.tool
        is_free = name == "mcp-name" and message.method != CALL  # of a prompt or a resource
        if values and not message.doubt and not is_free and values != [wanted]:
            return McpMessage(doubt=f"the header `{name}` does not agree with the body", id=message.id)
    return message


def read_message(body: bytes) -> McpMessage:
    """Return the message in a body, or why it is ambiguous.

    >>> str(read_message(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search"}}'))
    'tools/call search'
    """
    if len(body) > MAX_BODY:
        return McpMessage(doubt=TOO_LONG)
    try:
        return _message(read_plain_json(body))
    except Ambiguous as doubt:
        return McpMessage(doubt=str(doubt))


def _message(said: object) -> McpMessage:
    if not isinstance(said, dict):
        raise Ambiguous("a body that is not one JSON-RPC message")
    # Some servers read keys in any case.
    if not said.keys() <= KEYS:
        raise Ambiguous("a key that JSON-RPC does not have")
    if said.get("jsonrpc") != "2.0":
        raise Ambiguous("not JSON-RPC 2.0")
    return _request(said) if "method" in said else _answer(said)


def _request(said: dict[str, Any]) -> McpMessage:
    """Return a request or a notification."""
    method = said["method"]
    if not (isinstance(method, str) and METHOD.fullmatch(method)) or method in NO_METHODS:
        raise Ambiguous("an invalid `method`")
    if "result" in said or "error" in said:
        raise Ambiguous("a `method` together with a `result` or an `error`")
    if method in ANSWERED:
        raise Ambiguous(f"`{method}`, which only servers call")
    if method.startswith(NOTIFICATION):
        if "id" in said:
            raise Ambiguous("a notification with an `id`")
    else:
        _check_id(said)
    params = said.get("params", {})
    if not isinstance(params, dict):
        raise Ambiguous("`params` that are not an object")
    return _call(params, said["id"]) if method == CALL else McpMessage(method=method, id=said.get("id"))


def _call(params: dict[str, Any], id: str | int) -> McpMessage:  # noqa: A002 - JSON-RPC's word
    name = params.get("name")
    if not (isinstance(name, str) and TOOL.fullmatch(name)):
        raise Ambiguous("an invalid name of a tool")
    if not params.keys() <= OF_A_CALL:
        raise Ambiguous("a key that the params of `tools/call` do not have")
    if not isinstance(params.get("arguments"), dict | None):
        raise Ambiguous("`arguments` that are not an object")
    return McpMessage(method=CALL, tool=name, answers=bool(params.get("inputResponses")), id=id)


def _answer(said: dict[str, Any]) -> McpMessage:
    """Return an answer to a request of the server. An error, or an empty result as for a ping, says nothing."""
    _check_id(said)
    if "params" in said or ("result" in said) == ("error" in said):
        raise Ambiguous("neither a request nor an answer")
    if not isinstance(said.get("result", said.get("error")), dict):
        raise Ambiguous("an answer that is not an object")
    return McpMessage(method=ANSWER, answers=bool(said.get("result")))


def _check_id(said: dict[str, Any]) -> None:
    found = said.get("id")
    is_number = isinstance(found, int) and not isinstance(found, bool) and abs(found) < LARGEST_ID
    if not (is_number or (isinstance(found, str) and len(found) <= LONGEST_ID)):
        raise Ambiguous("an `id` that is not a short text or a whole number")
