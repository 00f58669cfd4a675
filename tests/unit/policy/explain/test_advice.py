import pytest
from msgspec.structs import replace

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.engine.decide import decide, decide_connect
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.explain.advice import (
    ANSWERING,
    FILE,
    NO_MCP,
    NOT_LISTABLE,
    PLAINLY,
    advise,
    entry_for_body,
    entry_for_exactly,
    entry_for_host,
)
from agent_sandbox.policy.explain.package_manager import PackageManager
from agent_sandbox.policy.http.graphql_operation import Operation
from agent_sandbox.policy.http.mcp_message import CALL, McpMessage
from policy_texts import LayerOf, PolicyOf, RequestOf
from table_tests import each

POLICY = "domains: [{host: a.test, rules: [{methods: [GET]}]}]\ndeny: [b.test]"
APPLY = "then: agent-sandbox proxy reload"


@each(
    ("line", "advice"),
    [
        ("GET https://a.test/", ""),
        ("GET https://c.test/x", "run `agent-sandbox policy allow 'GET https://c.test/x'` on the host machine"),
        (
            "POST https://a.test/x?y",
            "run `agent-sandbox policy allow 'POST https://a.test/x'` on the host machine",
        ),
        (
            "GET https://10.0.0.1/",
            ("10.0.0.1 is not a public address (private): add it under `host_services`: `NAME: {to: 10.0.0.1:443}`"),
        ),
        (
            "GET https://203.0.113.7/",
            "run `agent-sandbox policy allow 'GET https://203.0.113.7/'` on the host machine",
        ),
        (
            "GET https://slash.test/it's/@b%2Fc",
            (
                "add `- {host: slash.test, ports: [443], encoded_slash: true, "
                "rules: [{methods: [GET], schemes: [https], path: {prefix: '/it''s/'}}]}` "
                f"under `domains` in .devcontainer/policy.yaml, {APPLY}"
            ),
        ),
        (
            "GET https://c.test/a;b",
            (
                "add `- {host: c.test, ports: [443], "
                "rules: [{methods: [GET], schemes: [https], path: {prefix: '/'}}]}` "
                f"under `domains` in .devcontainer/policy.yaml, {APPLY}"
            ),
        ),
        ("GTE https://a.test/", "no rule can name the method GTE"),
        ("TRACE https://c.test/", "no rule can name the method TRACE"),
        (
            "GET https://b.test/",
            f"a deny always wins: remove or narrow the entry at policy.yaml:2, {APPLY}",
        ),
    ],
)
def test_suggests_how_to_allow_exactly_the_denied_request(
    policy_of: PolicyOf, request_of: RequestOf, line: str, advice: str
) -> None:
    request = request_of(line)
    assert advise(request, decide(policy_of(POLICY), request)) == advice


@each(
    ("line", "command", "advice"),
    [
        (
            "POST https://a.test/r",
            "agent-sandbox secret setup x",
            "run `{}` on the host machine: it asks for a token if there is none",
        ),
        ("POST https://a.test/r", "agent-sandbox policy allow x", "run `{}` on the host machine"),
        ("POST https://b.test/r", "x", f"a deny always wins: remove or narrow the entry at policy.yaml:2, {APPLY}"),
        (
            "POST https://10.0.0.1/r",
            "x",
            "10.0.0.1 is not a public address (private): add it under `host_services`: `NAME: {{to: 10.0.0.1:443}}`",
        ),
    ],
)
def test_suggests_the_git_command_for_a_denied_push(
    policy_of: PolicyOf, request_of: RequestOf, line: str, command: str, advice: str
) -> None:
    request = request_of(line)
    got = advise(request, decide(policy_of(POLICY), request), git_command=command)
    assert got == advice.format(command)


def test_suggests_to_fix_a_policy_that_cannot_be_read() -> None:
    policy = Policy.deny_all("broken")
    advice = advise("a.test", decide_connect(policy, host="a.test", port=443))
    assert advice == f"run `agent-sandbox policy check` and fix .devcontainer/policy.yaml, {APPLY}"


@each("text", ["", "version: 1", "domains: []", "deny: [b.test]"])
def test_suggests_a_line_if_the_policy_allows_nothing_yet(
    policy_of: PolicyOf, request_of: RequestOf, text: str
) -> None:
    policy, request = policy_of(text), request_of("GET https://a.test/x")
    advice = advise(request, decide(policy, request), services=["a"])
    ways = "`agent-sandbox policy allow 'GET https://a.test/x'`, or `agent-sandbox policy allow a`"
    assert advice == f"run {ways} on the host machine"
    advice = advise("a.test", decide_connect(policy, host="a.test", port=443))
    assert advice == "run `agent-sandbox policy allow a.test` on the host machine"


def test_names_the_restricting_layer_that_has_to_allow_the_request_too(
    layer_of: LayerOf, request_of: RequestOf
) -> None:
    narrowing = layer_of("tighten: true\ndomains: [b.test]", name="team", file="team.yaml")
    request = request_of("GET https://a.test/")
    decision = decide(compile_policy([narrowing, layer_of("domains: [a.test]")], {}), request)
    assert advise(request, decision) == f"team.yaml:1 has to allow it too, {APPLY}"


def test_suggests_an_entry_with_the_port_for_a_denied_connect(policy_of: PolicyOf) -> None:
    decision = decide_connect(policy_of(POLICY), host="a.test", port=8443)
    advice = advise("a.test", decision, port=8443)
    assert advice == f"add `- {{host: a.test, ports: [8443]}}` under `domains` in .devcontainer/policy.yaml, {APPLY}"
    decision = decide_connect(policy_of(POLICY), host="a.test", port=22)
    assert advise("a.test", decision, port=22) == "port 22 is SSH, and only HTTP and TLS leave the sandbox"


@pytest.mark.parametrize(
    ("host", "advice"),
    [
        ("203.0.113.7", "run `agent-sandbox policy allow 203.0.113.7` on the host machine"),
        ("2606:4700::1", "run `agent-sandbox policy allow '[2606:4700::1]'` on the host machine"),
        (
            "10.0.0.1",
            "10.0.0.1 is not a public address (private): add it under `host_services`: `NAME: {to: 10.0.0.1:443}`",
        ),
    ],
)
def test_suggests_an_entry_or_a_host_service_for_a_denied_connect_to_an_address(
    policy_of: PolicyOf, host: str, advice: str
) -> None:
    assert advise(host, decide_connect(policy_of(POLICY), host=host, port=443)) == advice


def test_suggests_matching_services_after_the_line(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request = request_of("GET https://c.test/x")
    advice = advise(request, decide(policy_of(POLICY), request), services=("github", "copilot"))
    first = "`agent-sandbox policy allow 'GET https://c.test/x'`"
    others = "`agent-sandbox policy allow github`, or `agent-sandbox policy allow copilot`"
    assert advice == f"run {first}, or {others} on the host machine"
    encoded = request_of("GET https://c.test/a;b")
    advice = advise(encoded, decide(policy_of(POLICY), encoded), services=("github",))
    assert advice.startswith("run `agent-sandbox policy allow github` on the host machine, or add `- {host: c.test, ")


def test_suggests_services_before_the_line_if_services_come_first(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request = request_of("GET https://c.test/x")
    decision = decide(policy_of(POLICY), request)
    advice = advise(request, decision, services=("go", "rust"), services_first=True)
    first = "run `agent-sandbox policy allow go`, or `agent-sandbox policy allow rust`"
    assert advice == f"{first}, or `agent-sandbox policy allow 'GET https://c.test/x'` on the host machine"


@each(
    ("line", "for_host", "for_request"),
    [
        ("GET https://c.test/", "- c.test", "- GET https://c.test/"),
        ("GET http://c.test:8080/a?b=1", "- {host: c.test, ports: [8080]}", "- GET http://c.test:8080/a?b=1"),
        ("GET https://[2001:db8::1]/", '- "[2001:db8::1]"', "- GET https://[2001:db8::1]/"),
        ("GET https://c.test/a*b", "- c.test", "- GET https://c.test/a%2Ab"),
        ('GET https://c.test/"`', "- c.test", "- GET https://c.test/%22%60"),
        ("GET https://c.test/it's:", "- c.test", "- 'GET https://c.test/it''s:'"),
    ],
)
def test_quotes_suggested_lines_for_yaml(request_of: RequestOf, line: str, for_host: str, for_request: str) -> None:
    request = request_of(line)
    assert (entry_for_host(request.host, request.port), entry_for_exactly(request)) == (for_host, for_request)


ONE = "methods: [POST], schemes: [https], path: {exact: '/graphql'}, graphql: {mutation: [a, b]}"
GRAPHQL = "domains: [{host: a.test, rules: [{path: {exact: /graphql}, graphql: {query: [viewer]}}]}]"


@pytest.mark.parametrize(
    ("operation", "advice"),
    [
        (
            Operation(kind="mutation", fields=frozenset({"b", "a"})),
            f"add `- {{host: a.test, ports: [443], rules: [{{{ONE}}}]}}` under `domains` in {FILE}, {APPLY}",
        ),
        (Operation(kind="subscription", fields=frozenset({"a"})), PLAINLY),
        (Operation(doubt="no JSON"), PLAINLY),
        (None, PLAINLY),
    ],
)
def test_suggests_an_entry_for_a_denied_graphql_mutation_by_its_fields(
    policy_of: PolicyOf, request_of: RequestOf, operation: Operation | None, advice: str
) -> None:
    request = replace(request_of("POST https://a.test/graphql"), operation=operation)
    assert advise(request, decide(policy_of(GRAPHQL), request)) == advice


MCP = "domains: [{host: a.test, rules: [{path: {exact: /mcp}, mcp: {tools: [search]}}]}]"


@pytest.mark.parametrize(
    ("message", "listed", "wider"),
    [
        (McpMessage(method=CALL, tool="delete"), "mcp: {tools: [delete]}", "`delete` to `mcp.tools`"),
        (McpMessage(method=CALL, tool="true"), 'mcp: {tools: ["true"]}', '`"true"` to `mcp.tools`'),
        (McpMessage(method=CALL, tool="1e3"), 'mcp: {tools: ["1e3"]}', '`"1e3"` to `mcp.tools`'),
        (McpMessage(method="prompts/get"), "mcp: {methods: [prompts/get]}", "`prompts/get` to `mcp.methods`"),
    ],
)
def test_suggests_adding_an_mcp_tool_to_the_nearest_rule_or_to_a_new_entry(
    policy_of: PolicyOf, request_of: RequestOf, message: McpMessage, listed: str, wider: str
) -> None:
    request = replace(request_of("POST https://a.test/mcp"), message=message)
    decision = decide(policy_of(MCP), request)
    assert advise(request, decision) == f"add {wider} at policy.yaml:1, {APPLY}"
    rule = f"{{methods: [POST], schemes: [https], path: {{exact: '/mcp'}}, {listed}}}"
    entry = f"{{host: a.test, ports: [443], rules: [{rule}]}}"
    for before, after in (("policy.yaml", "services/mcp.yaml"), ("with MCP", "with GraphQL")):
        elsewhere = replace(decision, near_miss=decision.near_miss.replace(before, after))
        assert advise(request, elsewhere) == f"add `- {entry}` under `domains` in {FILE}, {APPLY}"
    assert decide(policy_of(f"domains: [{entry}]"), request).allowed


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (McpMessage(doubt="no body"), NO_MCP),
        (McpMessage(method=CALL, tool="search", answers=True), ANSWERING),
        (McpMessage(method="tools/delete"), NOT_LISTABLE),
    ],
)
def test_explains_why_no_line_can_allow_an_mcp_message(
    policy_of: PolicyOf, request_of: RequestOf, message: McpMessage, advice: str
) -> None:
    request = replace(request_of("POST https://a.test/mcp"), message=message)
    assert advise(request, decide(policy_of(MCP), request)) == advice


def test_suggests_listing_an_operation_at_its_host_service(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of(
        "host_services: {db: {to: host:81, graphql: {query: [viewer]}}, m: {to: host:82, mcp: {tools: [a]}}}"
    )
    request = replace(request_of("POST http://db:81/"), operation=Operation(kind="query", fields=frozenset({"a"})))
    call = replace(request_of("POST http://m:82/"), message=McpMessage(method=CALL, tool="b"))
    for one, what in ((request, "it to the list"), (call, "`b` to `mcp.tools`")):
        assert advise(one, decide(policy, one)) == f"add {what} at policy.yaml:1, {APPLY}"
    unclear = replace(call, message=McpMessage(doubt="no body"))
    assert advise(unclear, decide(policy, unclear)) == NO_MCP


def test_the_suggested_entry_for_a_graphql_operation_allows_the_request(
    request_of: RequestOf, policy_of: PolicyOf
) -> None:
    fields = {"a", "_", "n", "Y", "no", "On", "true", "FALSE", "null", "off", "yes"}
    operation = Operation(kind="query", fields=frozenset(fields))
    request = replace(request_of("POST https://[2606:4700::1]/it's*"), operation=operation)
    assert decide(policy_of(f"domains: [{entry_for_body(request).removeprefix('- ')}]"), request).allowed


def test_suggests_policy_allow_for_a_package_manager_unless_a_service_matches(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    request = request_of("GET https://c.test/simple/a/")
    decision, package_manager = (
        decide(policy_of(POLICY), request),
        PackageManager(tool="pip", service="python", clients=(), paths=()),
    )
    first = "run `agent-sandbox policy allow 'GET https://c.test/simple/a/'`"
    assert (
        advise(request, decision, package_manager=package_manager)
        == f"for everything that pip fetches: {package_manager.way}, or {first} on the host machine"
    )
    assert (
        advise(request, decision, package_manager=package_manager, services=["py"])
        == f"{first}, or `agent-sandbox policy allow py` on the host machine"
    )


@each(
    ("line", "told"),
    [
        (
            "POST https://s.test/x",
            (
                "run `agent-sandbox policy allow 'POST https://s.test/x'` on the host machine, "
                "which would not inject secret key in x-key (policy.yaml:1); widen that entry instead"
            ),
        ),
        ("GET http://s.test/x", "use https: secret key in x-key (policy.yaml:1) is sent only over https"),
    ],
)
def test_warns_if_a_suggested_line_would_bypass_secret_injection(
    policy_of: PolicyOf, request_of: RequestOf, line: str, told: str
) -> None:
    key = "{request: {headers: {X-Key: {secret: key, transform: {type: bearer}}}}}"
    policy = policy_of(f"domains: [{{host: s.test, transform: {key}, rules: [{{methods: [GET]}}]}}]")
    assert advise(request_of(line), decide(policy, request_of(line))) == told
