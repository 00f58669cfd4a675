from agent_sandbox.policytools.lint.checks.unread import mcp_anywhere, plain_http, uninspected, unlisted_graphql
from policy_texts import Find

PLAIN = """
domains:
  - a.test
  - host: b.test
    rules:
      - {schemes: [https]}
      - {schemes: [http, https]}
allow:
  - GET http://c.test/
  - GET https://d.test/
deny:
  - GET http://e.test/
"""
OPAQUE = """
domains:
  - {host: a.test, inspect: false}
  - {host: b.test, inspect: false}  # pins its certificate
  - {host: c.test, inspect: false, reason: large}
  - {host: d.test, inspect: true}
  - e.test
"""


def test_finds_rules_that_name_plain_http(find: Find) -> None:
    what = "{} is allowed over plain http".format
    assert find(plain_http, PLAIN) == [(7, what("b.test")), (9, what("c.test"))]


def test_finds_passthrough_without_a_reason_or_comment(find: Find) -> None:
    assert find(uninspected, OPAQUE) == [(3, "requests to a.test are not inspected (`inspect: false`)")]


def test_finds_graphql_endpoints_without_listed_operations(find: Find) -> None:
    text = """
    allow:
      - POST https://a.test/graphql
      - GET https://a.test/graphql
      - POST https://a.test/x/*/GraphQL
      - POST https://a.test/graphql/x
    domains:
      - {host: b.test, rules: [{methods: [POST], path: {exact: /graphql}, graphql: {query: [a]}}]}
      - c.test
    """
    what = "{} allows all of the GraphQL API: reads and deletes look the same".format
    assert find(unlisted_graphql, text) == [(3, what("a.test/graphql")), (5, what("a.test/x/*/GraphQL"))]


def test_finds_mcp_rules_without_a_path(find: Find) -> None:
    text = """
    domains:
      - {host: a.test, rules: [{mcp: {tools: [search]}}]}
      - {host: b.test, rules: [{path: {exact: /mcp}, mcp: {tools: [search]}}]}
    """
    assert find(mcp_anywhere, text) == [(3, "a.test accepts MCP messages at every path")]
