import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.mcp_message import ANSWER, ANY_MESSAGE, CALL, STREAM, McpMessage
from agent_sandbox.policy.match.mcp_pattern import McpPattern, mcp_pattern, parse_tool_name
from table_tests import each

SEARCH = mcp_pattern(["search", "read_*"], ["prompts/list"])


def call(tool: str, *, answers: bool = False) -> McpMessage:
    return McpMessage(method=CALL, tool=tool, answers=answers)


@each(
    ("pattern", "message", "differences"),
    [
        (SEARCH, call("search"), ()),
        (SEARCH, call("read_file"), ()),
        (SEARCH, call("read_"), ()),
        (SEARCH, McpMessage(method="prompts/list"), ()),
        *((SEARCH, McpMessage(method=method), ()) for method in ("initialize", "tools/list", STREAM, ANSWER)),
        (SEARCH, call("delete"), ("mcp tools/call delete",)),
        (SEARCH, call("SEARCH"), ("mcp tools/call SEARCH",)),
        (SEARCH, McpMessage(method="prompts/get"), ("mcp prompts/get",)),
        (mcp_pattern([], ["prompts/list"]), call("a"), ("mcp tools/call a",)),
        (mcp_pattern(["*"], []), call("a"), ()),
        (SEARCH, call("search", answers=True), ("mcp answer to a request of the server",)),
        (mcp_pattern(["a"], ["elicitation/create"]), call("a", answers=True), ()),
        (SEARCH, McpMessage(method=ANSWER, answers=True), ("mcp answer to a request of the server",)),
        (SEARCH, McpMessage(doubt="no body"), ("ambiguous MCP (no body)",)),
        (SEARCH, None, ("an MCP message that was not read",)),
    ],
)
def test_accepts_listed_messages_and_names_the_difference_of_others(
    pattern: McpPattern, message: McpMessage | None, differences: tuple[str, ...]
) -> None:
    assert pattern.differences(message) == differences
    assert pattern.takes(message) is (not differences)


def test_any_message_matches_every_pattern() -> None:
    assert SEARCH.takes(ANY_MESSAGE)


@each(
    ("narrow", "wide", "within"),
    [
        (SEARCH, SEARCH, True),
        (mcp_pattern(["read_a*"], []), SEARCH, True),
        (mcp_pattern(["read*"], []), SEARCH, False),
        (mcp_pattern(["read_a"], ["prompts/get"]), SEARCH, False),
        (SEARCH, mcp_pattern(["*"], ["prompts/list"]), True),
        (SEARCH, mcp_pattern(["search"], ["prompts/list"]), False),
    ],
)
def test_a_pattern_is_within_a_pattern_that_lists_at_least_as_much(
    narrow: McpPattern, wide: McpPattern, *, within: bool
) -> None:
    assert narrow.within(wide) is within


def test_shows_and_dumps_a_pattern_as_its_lists() -> None:
    assert str(SEARCH) == "tools read_*, search and methods prompts/list"
    assert SEARCH.written == {"tools": ["read_*", "search"], "methods": ["prompts/list"]}
    assert mcp_pattern(["a", "a"], []).written == {"tools": ["a"]}


@pytest.mark.parametrize("text", ["search", "*", "read_*", "*_a*b*", "a.b/c:d"])
def test_a_tool_is_listed_by_name_or_with_stars(text: str) -> None:
    assert parse_tool_name(text) == text


@pytest.mark.parametrize("text", ["", "a b", "a**", "a*b*c*d*e*", "\u00e9", "x" * 129])
def test_a_name_that_no_tool_has_is_invalid(text: str) -> None:
    with pytest.raises(InvalidValue, match="not a name of a tool") as raised:
        parse_tool_name(text)
    assert raised.value.hint == "use a name such as `search`, or `read_*`"
