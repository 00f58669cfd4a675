import dataclasses

from msgspec.structs import replace

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.request import parse_request
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.host_service import HostService
from agent_sandbox.policy.match.upstream import Authorities
from policy_texts import LayerOf, PolicyOf
from table_tests import each

WRITTEN = """
domains:
  - b.test
  - {host: a.test, rules: [{methods: [GET, POST], path: {prefix: /x}}]}
"""
THE_SAME = """
# Another order, another case, another spelling, and a reason.
domains:
  - host: A.test.
    reason: because
    ports: [80, 443]
    rules: [{path: {prefix: "/%78"}, methods: [POST, HEAD, GET]}]
  - b.test
settings: {block_status: 403, ask: false}
"""
UNREAD = "{host: a.test, inspect: false}"


def test_a_digest_does_not_depend_on_how_the_policy_is_written(policy_of: PolicyOf) -> None:
    assert policy_of(WRITTEN).digest == policy_of(THE_SAME).digest


def test_a_digest_changes_with_what_a_policy_does(policy_of: PolicyOf) -> None:
    changes = (
        "deny: [c.test]",
        "settings: {block_status: 418}",
        "settings: {http1: lane}",
        "settings: {sign_commits: git.key}",
        "settings: {ask: unlisted}",
        "settings: {ask: {timeout: 9}}",
        "settings: {budget: {requests: 1/min}}",
        "allow: [GET https://c.test/]",
    )
    limited = WRITTEN.replace("- b.test", "- {host: b.test, budget: {requests: 1/min}}")
    texts = (WRITTEN, limited, *(f"{WRITTEN}\n{change}" for change in changes))
    assert len({policy_of(text).digest for text in texts}) == len(texts)


def test_reports_whether_any_rule_or_restriction_has_a_graphql_or_mcp_condition(layer_of: LayerOf) -> None:
    plain = layer_of("domains: [a.test]")
    asking = layer_of("{tighten: true, domains: [{host: a.test, rules: [{graphql: {query: [a]}}]}]}")
    asks = [compile_policy(layers, {}).asks_operations for layers in ([plain], [asking, plain])]
    assert asks == [False, True]
    messages = layer_of("{tighten: true, domains: [{host: a.test, rules: [{mcp: {tools: [a]}}]}]}")
    assert [compile_policy(layers, {}).asks_messages for layers in ([plain], [messages, plain])] == [False, True]


def test_a_digest_is_the_same_on_every_machine(policy_of: PolicyOf) -> None:
    expected = "421fdab9cadfc20feea8ef46ccb64a75984dd6df520a21e5713d005454dc8be8"
    assert policy_of(WRITTEN).digest == expected


def test_a_denial_is_403_unless_block_status_is_set(policy_of: PolicyOf) -> None:
    statuses = [policy_of(text).settings.block_status for text in ("", "settings: {block_status: 418}")]
    assert statuses == [403, 418]


def test_accepts_encoded_slashes_for_hosts_that_opt_in_and_hosts_without_an_allow(policy_of: PolicyOf) -> None:
    policy = policy_of(
        "domains: [b.test, {host: a.test, encoded_slash: true}]\ndeny: [{host: c.test, encoded_slash: true}]"
    )
    hosts = ("a.test", "b.test", "c.test", "d.test")
    assert [host for host in hosts if policy.takes_encoded_slash(host)] == ["a.test", "c.test", "d.test"]


def test_a_digest_changes_with_a_restriction(layer_of: LayerOf, policy_of: PolicyOf) -> None:
    narrowing = layer_of("tighten: true\ndomains: [b.test]")
    within = compile_policy([layer_of(WRITTEN), narrowing], {})
    assert within.digest == compile_policy([narrowing, layer_of(THE_SAME)], {}).digest != policy_of(WRITTEN).digest
    insisting = layer_of("tighten: true\nsettings: {inspect: true}")
    assert compile_policy([insisting, layer_of(WRITTEN)], {}).digest != policy_of(WRITTEN).digest


def test_finds_host_services_by_name_and_port_and_includes_them_in_the_digest(policy_of: PolicyOf) -> None:
    one, other = (policy_of(f"host_services: {{db: {{to: {to}}}}}") for to in ("host:5433", "10.1.2.3:5433"))
    assert one.host_service("db", 5433) == HostService(name="db", to="host", port=5433)
    assert one.host_service("db", 80) is None
    assert other.host_service("10.1.2.3", 5433) == HostService(name="db", to="10.1.2.3", port=5433)
    assert one.digest != policy_of("host_services: {db: {to: db:5433}}").digest


def test_uses_the_upstream_proxy_and_ca_of_the_policy(layer_of: LayerOf) -> None:
    written = "settings: {upstream: {proxy: 'http://proxy.corp.example:3128', ca: x.pem, no_proxy: [near.example]}}"
    authorities = Authorities(name="x.pem (sha256 1)", pem="-----BEGIN")
    policy = compile_policy([replace(layer_of(written), authorities=authorities)], {})
    assert (str(policy.upstream_proxy("a.test")), policy.upstream_proxy("near.example")) == (
        "http://proxy.corp.example:3128",
        None,
    )
    assert policy.authorities == "-----BEGIN"
    silent = compile_policy([layer_of("")], {})
    assert (silent.upstream_proxy("a.test"), silent.authorities) == (None, "")
    others = [dataclasses.replace(authorities, name="x.pem (sha256 2)"), None]
    digests = {compile_policy([replace(layer_of(written), authorities=one)], {}).digest for one in others}
    assert len(digests | {policy.digest, silent.digest}) == 4
    assert compile_policy([layer_of(written)], {}).authorities == ""


def test_adds_grants_to_existing_grants(policy_of: PolicyOf) -> None:
    policy = policy_of("domains: [a.test]")
    conditions = Conditions(host=parse_host_pattern("b.test"), ports=frozenset({443}), methods=frozenset({"GET"}))
    rule = Rule(effect=Effect.ALLOW, conditions=conditions, origin=Origin(file="grant", line=1, layer="grant"))
    assert policy.granting(()) is policy
    granted = policy.granting((rule,)).granting((rule,)).granted
    assert granted
    assert granted.rules == (rule, rule)
    assert policy.granting((rule,)).digest == policy.digest


BUDGETS = """
settings: {budget: {requests: 9/min}}
domains:
- {host: a.test, budget: {requests: 1/min}, rules: [{methods: [GET]}, {path: {prefix: /x}}]}
- {host: a.test, budget: {requests: 2/min}, rules: [{methods: [POST]}]}
- {host: "*.b.test", ports: [8443], budget: {upload: 1KiB/day}}
- c.test
"""


def test_a_request_counts_against_the_budgets_of_all_entries_that_allow_it(policy_of: PolicyOf) -> None:
    policy = policy_of(BUDGETS)

    def budgets(method: str, host: str, path: str = "/", port: int = 443) -> list[str]:
        request = parse_request(scheme="https", host=host, port=port, method=method, target=path)
        return [f"{one.key}: {one.budget}" for one in policy.budgets(host, port, request)]

    box = "project settings: 9 requests per min"
    one, other = ("project a.test: 1 requests per min", "project a.test: 2 requests per min")
    assert budgets("GET", "a.test", "/x") == [one, box]
    assert sorted(budgets("POST", "a.test", "/x")) == [one, other, box]
    assert budgets("POST", "a.test", "/y") == [other, box]
    assert budgets("GET", "x.b.test", port=8443) == ["project *.b.test: 1KiB of upload per day", box]
    assert budgets("GET", "c.test") == [box]
    assert [one.key for one in policy.budgets("x.b.test", 8443)] == ["project *.b.test", "project settings"]
    assert [one.key for one in policy.budgets("x.b.test", 443)] == ["project settings"]
    assert policy_of("domains: [a.test]").budgets("a.test", 443) == ()


def test_a_service_budget_counts_all_its_rules_and_no_layer_lifts_it(layer_of: LayerOf) -> None:
    services = {
        "x": replace(layer_of("domains: [a.test, {host: b.test, rules: [{methods: [GET]}]}]"), name="service x")
    }
    lower, higher = (
        compile_policy([layer_of(f"services: [{{name: x{more}}}]\ndomains: [c.test]")], services)
        for more in (", budget: {requests: 9/min}", ", merge_mode: replace")
    )
    policy = Policy.of(lower.rules + higher.rules)

    def budgets(line: str, host: str) -> list[str]:
        request = parse_request(scheme="https", host=host, port=443, method=line, target="/")
        return [f"{one.key}: {one.budget} of {one.whose}" for one in policy.budgets(host, 443, request)]

    found = ["project service x: 9 requests per min of the service x"]
    assert budgets("GET", "a.test") == budgets("GET", "b.test") == found
    assert budgets("POST", "b.test") == budgets("GET", "c.test") == []
    assert policy.digest != Policy.of(higher.rules).digest


def test_a_restricting_layer_can_set_a_budget_that_no_other_layer_lifts(policy_of: PolicyOf) -> None:
    narrow = policy_of(
        "tighten: true\nsettings: {budget: {requests: 1/min}}\ndomains: [{host: a.test, budget: {requests: 5/min}}]"
    )
    wide = policy_of("settings: {budget: {requests: 9/min}}\ndomains: [{host: a.test, budget: {requests: 8/min}}]")
    both = Policy.of(narrow.rules + wide.rules)
    request = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/")
    rates = sorted(str(one.budget) for one in both.budgets("a.test", 443, request))
    assert rates == ["1 requests per min", "5 requests per min", "8 requests per min", "9 requests per min"]


def test_inspects_hosts_whose_requests_need_a_person_unless_the_entry_opts_out(policy_of: PolicyOf) -> None:
    hosts = "domains: [a.test, {host: b.test, inspect: false}]\nsettings: {inspect: false, ask: %s}"
    for ask, whole in (("unlisted", True), ("writes", False), ("{uploads: 0}", False)):
        policy = policy_of(hosts % ask)
        assert [policy.passthrough(host, 443) for host in ("a.test", "b.test")] == [whole, True]


@each(
    ("text", "unopened"),
    [
        ("domains: [a.test]", False),
        (f"domains: [{UNREAD}]", True),
        ("domains: [{host: .a.test, inspect: false}]", True),
        (f"domains: [{UNREAD}, a.test, .a.test]", True),
        (f"domains: [{UNREAD}, {{host: .a.test, inspect: true}}]", False),
        (f"domains: [{UNREAD}, {{host: .a.test, rules: [{{path: {{prefix: /x}}}}]}}]", False),
        (f"domains: [{UNREAD}, {{host: a.test, rules: [{{methods: [GET]}}]}}]", False),
        (f"domains: [{UNREAD}, {{host: a.test, ports: [80], rules: [{{methods: [GET]}}]}}]", True),
        (f"domains: [{UNREAD}]\nallow: [GET https://a.test/]", False),
        (f"domains: [{UNREAD}]\ndeny: [POST https://a.test/x]", False),
        (f"domains: [{UNREAD}]\ndeny: [a.test]", False),
        (f"domains: [{UNREAD}]\ndeny: [{{host: a.test, ports: [8443]}}, b.test]", True),
        ("domains: [a.test]\nsettings: {inspect: false}", True),
        ("domains: [{host: a.test, inspect: true}]\nsettings: {inspect: false}", False),
        ("domains: [{host: a.test, rules: [{methods: [GET]}]}]\nsettings: {inspect: false}", False),
        ("domains: [{host: a.test, ports: [8443], inspect: false}]", False),
        ("domains: [b.test]\nsettings: {inspect: false}", False),
        ("deny: [a.test]\nsettings: {inspect: false}", False),
        ("domains: [{host: a.test, ask: true}]\nsettings: {inspect: false}", False),
        (f"domains: [{UNREAD}, {{host: .a.test, ask: true}}]", False),
        (f"domains: [{UNREAD}, {{host: a.test, ports: [8443], ask: true}}]", True),
        ("domains: [a.test, {host: b.test, ask: true}]\nsettings: {inspect: false}", True),
    ],
)
def test_passes_tls_through_only_if_no_rule_for_the_host_needs_inspection(
    layer_of: LayerOf, text: str, *, unopened: bool
) -> None:
    assert compile_policy([layer_of(text)], {}).passthrough("a.test", 443) is unopened


@each(
    ("above", "unopened"),
    [
        ("domains: [a.test]", True),
        ("domains: [.a.test, {host: a.test, rules: [{methods: [GET]}]}]", True),
        ("domains: [{host: a.test, rules: [{methods: [GET]}]}]", False),
        ("domains: [{host: a.test, inspect: true}]", False),
        ("domains: [a.test, {host: a.test, ask: true}]", False),
        ("domains: [{host: a.test, ports: [80]}]", False),
        ("deny: [b.test]", True),
        ("settings: {inspect: true}", False),
        ("settings: {inspect: false}", True),
    ],
)
def test_a_restricting_layer_can_require_inspection(layer_of: LayerOf, above: str, *, unopened: bool) -> None:
    layers = [layer_of(f"tighten: true\n{above}"), layer_of(f"domains: [{UNREAD}]")]
    assert compile_policy(layers, {}).passthrough("a.test", 443) is unopened


def test_a_restricting_layer_cannot_add_passthrough(layer_of: LayerOf) -> None:
    layers = [layer_of("domains: [a.test]"), layer_of("tighten: true\nsettings: {inspect: false}")]
    assert not compile_policy(layers, {}).passthrough("a.test", 443)
