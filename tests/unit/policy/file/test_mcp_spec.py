from agent_sandbox.policy.match.mcp_pattern import mcp_pattern
from policy_specs import problems, read, rule
from table_tests import each


def test_a_rule_lists_tools_and_methods() -> None:
    spec = read(rule("methods: [POST, GET], mcp: {tools: [search, read_*], methods: [prompts/list, roots/list]}"))
    mcp = spec.domains[0].rules[0].mcp
    assert mcp is not None
    assert mcp.pattern == mcp_pattern(["read_*", "search"], ["prompts/list", "roots/list"])


@each(
    ("text", "expected"),
    [
        ("mcp: {}", "p:1:40: `mcp` names no tool; write `mcp: {tools: [search]}`"),
        ("mcp: {tools: []}", "p:1:48: empty list; remove it, or add an entry"),
        ("mcp: {tools: search}", "p:1:48: list expected, not 'search'; write [search]"),
        (
            "mcp: {tools: [a b]}",
            "p:1:49: not a name of a tool: 'a b'; use a name such as `search`, or `read_*`",
        ),
        ("mcp: {tool: [a]}", "p:1:41: unknown key 'tool'; did you mean `tools`?"),
        (
            "methods: [PUT], mcp: {tools: [a]}",
            "p:1:44: `mcp` works only with POST, GET, DELETE; remove `methods`",
        ),
        (
            "graphql: {query: [a]}, mcp: {tools: [a]}",
            "p:1:44: a body is never both GraphQL and MCP; write two rules",
        ),
    ],
)
def test_a_condition_that_cannot_match_is_reported_where_it_is_written(text: str, expected: str) -> None:
    assert expected in problems(rule(text))


def test_rejects_methods_that_a_policy_cannot_list() -> None:
    (problem,) = problems(rule("mcp: {methods: [tools/call]}"))
    assert problem.startswith("p:1:51: invalid value 'tools/call'")


def test_a_deny_cannot_list_tools() -> None:
    (problem,) = problems(rule("mcp: {tools: [a]}", "deny"))
    assert problem == (
        "p:1:37: `mcp` is not possible in a deny: other tools than those in a list can have the same effect; "
        "remove it; `mcp` belongs in an entry that allows, and what it does not list is denied"
    )
