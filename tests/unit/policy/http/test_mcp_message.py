from agent_sandbox.policy.http.mcp_message import ALWAYS, CALL, LISTABLE, McpMessage
from table_tests import each


@each(
    ("message", "text"),
    [
        (McpMessage(method=CALL, tool="search"), "tools/call search"),
        (McpMessage(method="ping"), "ping"),
        (McpMessage(doubt="no body"), "no body"),
    ],
)
def test_a_message_is_shown_by_method_and_tool(message: McpMessage, text: str) -> None:
    assert str(message) == text


def test_no_method_is_both_always_allowed_and_listable() -> None:
    assert not {*ALWAYS, CALL} & set(LISTABLE)
