from msgspec.structs import replace

from agent_sandbox.policy import Operation, parse_request
from agent_sandbox.policy.http.body import with_body, with_head
from agent_sandbox.policy.http.mcp_message import CALL, McpMessage

REQUEST = parse_request(
    scheme="https",
    host="a.test",
    port=443,
    method="POST",
    target="/x",
    headers=(("content-type", "application/json"),),
)


def test_parses_a_body_as_graphql_and_as_mcp() -> None:
    called = with_body(REQUEST, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}}')
    assert called.message == McpMessage(method=CALL, tool="a")
    assert called.operation == Operation(doubt="a key other than `query`, `operationName` and `variables`")
    queried = with_body(REQUEST, b'{"query": "{ viewer }"}')
    assert (str(queried.operation), queried.message) == (
        "query viewer",
        McpMessage(doubt="a key that JSON-RPC does not have"),
    )
    assert (called.body_size, queried.body_size) == (76, 23)


def test_the_head_determines_operation_and_message_only_of_an_empty_body() -> None:
    assert with_head(REQUEST) == REQUEST
    empty = with_head(replace(REQUEST, body_size=0))
    assert (empty.operation, empty.message) == (Operation(doubt="no body"), McpMessage(doubt="no body"))
