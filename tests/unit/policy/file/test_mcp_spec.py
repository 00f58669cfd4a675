import pytest

from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policy.match.mcp_pattern import mcp_pattern
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.problems import UserError
from table_tests import each


def rule(text: str, section: str = "domains") -> str:
    return f"{section}: [{{host: a.test, rules: [{{{text}}}]}}]"


def read(text: str) -> PolicySpec:
    return parse_layer(text, name="project", file="p.yaml", shown="p.yaml", services=()).spec


def problems(text: str) -> list[str]:
    with pytest.raises(UserError) as raised:
        read(text)
    return [str(problem) for problem in raised.value.problems]


def test_a_rule_lists_tools_and_methods() -> None:
    spec = read(rule("methods: [POST, GET], mcp: {tools: [search, read_*], methods: [prompts/list, roots/list]}"))
    mcp = spec.domains[0].rules[0].mcp
    assert mcp is not None
    assert mcp.pattern == mcp_pattern(["read_*", "search"], ["prompts/list", "roots/list"])


@each(
    ("text", "expected"),
    [
        ("mcp: {}", "p.yaml:1:40: `mcp` names no tool; write `mcp: {tools: [search]}`"),
        ("mcp: {tools: []}", "p.yaml:1:48: empty list; remove it, or add an entry"),
        ("mcp: {tools: search}", "p.yaml:1:48: list expected, not 'search'; write [search]"),
        (
            "mcp: {tools: [a b]}",
            "p.yaml:1:49: not a name of a tool: 'a b'; use a name such as `search`, or `read_*`",
        ),
        ("mcp: {tool: [a]}", "p.yaml:1:41: unknown key 'tool'; did you mean `tools`?"),
        (
            "methods: [PUT], mcp: {tools: [a]}",
            "p.yaml:1:44: `mcp` works only with POST, GET, DELETE; remove `methods`",
        ),
        (
            "graphql: {query: [a]}, mcp: {tools: [a]}",
            "p.yaml:1:44: a body is never both GraphQL and MCP; write two rules",
        ),
    ],
)
def test_a_condition_that_cannot_match_is_reported_where_it_is_written(text: str, expected: str) -> None:
    assert expected in problems(rule(text))


def test_only_methods_that_a_policy_may_list_are_accepted() -> None:
    (problem,) = problems(rule("mcp: {methods: [tools/call]}"))
    assert problem.startswith("p.yaml:1:51: invalid value 'tools/call'")


def test_a_deny_cannot_list_tools() -> None:
    (problem,) = problems(rule("mcp: {tools: [a]}", "deny"))
    assert problem == (
        "p.yaml:1:37: `mcp` is not possible in a deny: other tools than those in a list can have the same effect; "
        "remove it; `mcp` belongs in an entry that allows, and what it does not list is denied"
    )
