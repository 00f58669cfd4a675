import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Operation, compile_policy, decide
from agent_sandbox.policy.compiler.compile import offered
from agent_sandbox.policy.explain.advice import NO_MCP, PLAINLY
from agent_sandbox.policy.http.mcp_message import CALL, McpMessage
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.explain.remedy import ONLY_NARROWS, Remedy, remedy
from policy_texts import LayerOf, PolicyOf, RequestOf
from table_tests import each

BELOW_ROOT = "rules: [{methods: [GET], schemes: [https], path: {prefix: '/'}}]"


@each(
    ("line", "section", "expected"),
    [
        ("GET https://c.test/x", "allow", "- GET https://c.test/x"),
        ("POST https://a.test/x?b=1&c", "allow", "- POST https://a.test/x?b=1&c"),
        ("GET http://c.test:8080/a*b", "allow", "- GET http://c.test:8080/a%2Ab"),
        ("GET https://c.test/a:", "allow", "- 'GET https://c.test/a:'"),
        ("GET https://c.test/it's:", "allow", "- 'GET https://c.test/it''s:'"),
        ("GET https://[2606:4700::1]/", "allow", "- GET https://[2606:4700::1]/"),
        ("GET https://c.test/?" + "a" * 2000, "allow", "- GET https://c.test/?" + "a" * 2000),
        (
            "GET https://c.test/a/b;c/d",
            "domains",
            "- {host: c.test, ports: [443], rules: [{methods: [GET], schemes: [https], path: {prefix: '/a/'}}]}",
        ),
        (
            "GET https://slash.test/@a%2Fb",
            "domains",
            f"- {{host: slash.test, ports: [443], encoded_slash: true, {BELOW_ROOT}}}",
        ),
        ("GET https://c.test:81/" + ("a" * 50 + "/") * 25, "domains", "- {host: c.test, ports: [81]}"),
    ],
)
def test_suggests_the_narrowest_line_that_allows_the_request(
    policy_of: PolicyOf, request_of: RequestOf, line: str, section: str, expected: str
) -> None:
    request = request_of(line)
    policy = policy_of("domains: [{host: a.test, rules: [{methods: [GET]}]}]")
    got = remedy(policy, request, decide(policy, request), dict)
    assert got == Remedy(section=section, line=expected)
    layer = parse_layer(f"{section}:\n  {expected}\n", name="p", file="p", shown="p", services=())
    assert decide(compile_policy([layer], {}), request).allowed


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("GET https://b.test/", "a deny always wins: remove or narrow the entry at policy.yaml:2"),
        ("TRACE https://a.test/", "no rule can name the method TRACE"),
        ("GET https://10.0.0.1/", "add it under `host_services`: `NAME: {to: 10.0.0.1:443}`"),
    ],
)
def test_names_the_obstacle_if_no_line_can_allow_the_request(
    policy_of: PolicyOf, request_of: RequestOf, line: str, what: str
) -> None:
    request = request_of(line)
    policy = policy_of("domains: [a.test]\ndeny: [b.test]")
    assert remedy(policy, request, decide(policy, request), dict) == Remedy(in_the_way=what)


@pytest.mark.parametrize(("line", "section"), [("GET https://a.test/", ""), ("GET https://b.test/", "allow")])
def test_names_the_restricting_layer_that_has_to_allow_the_request_too(
    layer_of: LayerOf, request_of: RequestOf, line: str, section: str
) -> None:
    request = request_of(line)
    above = replace(layer_of("tighten: true\ndomains: [c.test]"), name="organisation")
    policy = compile_policy([above, layer_of("domains: [a.test]")], {})
    got = remedy(policy, request, decide(policy, request), dict)
    assert (got.section, got.in_the_way) == (section, "policy.yaml:1 has to allow it too")


def test_suggests_no_line_for_a_project_that_only_restricts(layer_of: LayerOf, request_of: RequestOf) -> None:
    request = request_of("GET https://a.test/")
    policy = compile_policy([layer_of("tighten: true\ndomains: [a.test]")], {})
    got = remedy(policy, request, decide(policy, request), dict)
    assert got == Remedy(in_the_way=ONLY_NARROWS.format("policy.yaml:1"))


def test_lists_services_that_allow_the_request_narrowest_first(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request = request_of("GET https://c.test/")
    texts = {
        "wide": "domains: [c.test, e.test]",
        "other": "domains: [d.test]",
        "narrow": "allow: [GET https://c.test/]",
    }
    services = {name: parse_layer(text, name=name, file="s", shown="s", services=()) for name, text in texts.items()}
    policy = policy_of("")
    assert remedy(policy, request, decide(policy, request), lambda: offered(services)).services == ("narrow", "wide")


GRAPHQL = "domains: [{host: a.test, rules: [{path: {prefix: /}, graphql: {query: [viewer]}}]}]"
ONE = "methods: [POST], schemes: [https], path: {exact: '/graphql'}, graphql: {mutation: [addComment]}"


@pytest.mark.parametrize(
    ("path", "operation", "expected"),
    [
        (
            "/graphql",
            Operation(kind="mutation", fields=frozenset({"addComment"})),
            Remedy(section="domains", line=f"- {{host: a.test, ports: [443], rules: [{{{ONE}}}]}}"),
        ),
        ("/graphql", Operation(doubt="no JSON"), Remedy(in_the_way=PLAINLY)),
        ("/a;b", Operation(kind="query", fields=frozenset({"node"})), Remedy(in_the_way=PLAINLY)),
    ],
)
def test_suggests_a_line_for_one_graphql_operation_never_for_all(
    policy_of: PolicyOf, request_of: RequestOf, path: str, operation: Operation, expected: Remedy
) -> None:
    request = replace(request_of(f"POST https://a.test{path}"), operation=operation)
    policy = policy_of(GRAPHQL)
    assert remedy(policy, request, decide(policy, request), lambda: offered({})) == expected


MCP = "domains: [{host: a.test, rules: [{path: {prefix: /}, mcp: {tools: [search]}}]}]"
LISTED = "methods: [POST], schemes: [https], path: {exact: '/mcp'}, mcp: {tools: [delete]}"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            McpMessage(method=CALL, tool="delete"),
            Remedy(section="domains", line=f"- {{host: a.test, ports: [443], rules: [{{{LISTED}}}]}}"),
        ),
        (McpMessage(doubt="no body"), Remedy(in_the_way=NO_MCP)),
        (None, Remedy(in_the_way="it depends on the MCP message: pass it with --mcp 'tools/call search'")),
    ],
)
def test_suggests_a_line_for_one_mcp_tool_never_for_all(
    policy_of: PolicyOf, request_of: RequestOf, message: McpMessage | None, expected: Remedy
) -> None:
    request, policy = replace(request_of("POST https://a.test/mcp"), message=message), policy_of(MCP)
    assert remedy(policy, request, decide(policy, request), lambda: offered({})) == expected


def test_suggests_adding_a_tool_to_the_list_of_its_host_service(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of("host_services: {m: {to: host:82, mcp: {tools: [a]}}}")
    request = replace(request_of("POST http://m:82/"), message=McpMessage(method=CALL, tool="b"))
    got = remedy(policy, request, decide(policy, request), dict)
    assert got == Remedy(in_the_way="add it to the list at policy.yaml:1")


def test_suggests_a_package_manager_for_a_likely_registry_unless_a_service_matches(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    policy, request = policy_of("version: 1"), request_of("GET https://a.test/simple/requests/")
    got = remedy(policy, request, decide(policy, request), dict)
    assert got.package_manager
    assert (got.package_manager.service, got.line) == ("python", "- GET https://a.test/simple/requests/")
    python = policy_of("domains: [a.test]")
    got = remedy(policy, request, decide(policy, request), lambda: {"python": python})
    assert (got.package_manager, got.services) == (None, ("python",))


def test_warns_if_the_line_would_bypass_secret_injection(policy_of: PolicyOf, request_of: RequestOf) -> None:
    key = "{request: {headers: {X-Key: {secret: key, transform: {type: bearer}}}}}"
    policy = policy_of(f"domains: [{{host: a.test, transform: {key}, rules: [{{methods: [GET]}}]}}]")
    post, clear = request_of("POST https://a.test/"), request_of("GET http://a.test/")
    wants = "secret key in x-key (policy.yaml:1)"
    got = [remedy(policy, request, decide(policy, request), dict) for request in (post, clear)]
    assert got == [
        Remedy(section="allow", line="- POST https://a.test/", without=wants),
        Remedy(in_the_way=f"use https: {wants} is sent only over https"),
    ]
