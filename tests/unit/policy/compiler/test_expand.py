import pytest
from msgspec.structs import replace

from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.request import USUAL_PORTS
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from agent_sandbox.policyfile import parse_service
from agent_sandbox.problems import UserError
from policy_texts import LayerOf
from table_tests import each


def test_an_allow_defaults_to_usual_ports_and_methods_and_a_deny_to_all(layer_of: LayerOf) -> None:
    rules = expand(layer_of("domains: [a.test]\ndeny: [a.test]"), {}).rules
    host = rules[0].conditions.host
    assert [(rule.effect, rule.conditions) for rule in rules] == [
        (Effect.ALLOW, Conditions(host=host, ports=USUAL_PORTS, methods=STANDARD)),
        (Effect.DENY, Conditions(host=host)),
    ]


def test_a_graphql_rule_implies_the_method_post(layer_of: LayerOf) -> None:
    rules = "[{graphql: {query: [a]}}, {methods: [POST], graphql: {query: [a]}}]"
    layer = layer_of(f"domains: [{{host: a.test, rules: {rules}}}]")
    first, second = (rule.conditions for rule in expand(layer, {}).rules)
    assert first == second
    assert first.methods == frozenset({"POST"})


def test_an_mcp_rule_implies_the_methods_of_its_transport_unless_it_names_fewer(layer_of: LayerOf) -> None:
    more = ("methods: [POST], ", "path: {exact: /mcp}, ", "path: {prefix: /mcp}, ", "")
    rules = ", ".join(f"{{{one}mcp: {{tools: [a]}}}}" for one in more)
    methods = [
        rule.conditions.methods for rule in expand(layer_of(f"domains: [{{host: a.test, rules: [{rules}]}}]"), {}).rules
    ]
    # Elsewhere on the host, a DELETE could concern something other than a session.
    everywhere = frozenset({"POST", "GET"})
    assert methods == [frozenset({"POST"}), everywhere | {"DELETE"}, everywhere, everywhere]


def test_expands_each_rule_of_an_entry_with_its_line_and_reason(layer_of: LayerOf) -> None:
    layer = layer_of(
        """
        domains:
          - host: a.test
            reason: of the entry
            rules:
              - methods: [GET]
              - methods: [POST]
                reason: of the rule
        """
    )
    told = [(str(rule), str(rule.origin), rule.reason) for rule in expand(layer, {}).rules]
    assert told == [
        ("GET, HEAD a.test", "policy.yaml:6", "of the entry"),
        ("POST a.test", "policy.yaml:7", "of the rule"),
    ]


def test_the_rules_of_an_entry_share_its_ports(layer_of: LayerOf) -> None:
    text = "domains: [{host: a.test, ports: [443, 8443], rules: [{path: {exact: /a}}, {path: {exact: /b}}]}]"
    one, other = expand(layer_of(text), {}).rules
    assert one.conditions.ports == frozenset({443, 8443})
    assert one.conditions.ports is other.conditions.ports


def test_a_service_brings_its_rules_with_its_own_origin(layer_of: LayerOf) -> None:
    service = replace(layer_of("domains: [s.test]\ndeny: [t.test]"), name="service x", file="services/x.yaml")
    layer = layer_of("services: [x]\ndomains: [a.test]").spec
    project = replace(service, name="project", file="policy.yaml", spec=layer)
    told = [(str(rule.conditions.host), rule.origin.layer) for rule in expand(project, {"x": service}).rules]
    assert told == [("s.test", "service x"), ("t.test", "service x"), ("a.test", "project")]


def test_keeps_settings(layer_of: LayerOf) -> None:
    assert expand(layer_of("settings: {block_status: 418}"), {}).settings == {"block_status": 418}


def test_keeps_upstream_settings_with_their_layer_even_from_a_restricting_layer(layer_of: LayerOf) -> None:
    upstream = "settings: {upstream: {proxy: 'http://proxy.corp.example:3128'}}"
    layers = [layer_of(upstream, name="user"), layer_of(f"tighten: true\n{upstream}", name="organisation")]
    said = [expand(layer, {}).settings["upstream"] for layer in layers]
    assert [one.layer for one in said] == ["user", "organisation"]


@pytest.mark.parametrize(("inspect", "insists"), [("true", True), ("false", False)])
def test_a_restricting_layer_can_require_inspection_but_cannot_turn_it_off(
    layer_of: LayerOf, inspect: str, *, insists: bool
) -> None:
    rules = expand(layer_of(f"tighten: true\nsettings: {{block_status: 418, inspect: {inspect}}}"), {})
    assert (rules.settings, rules.always_inspects) == ({"block_status": 418}, insists)


def test_a_restricting_layer_expands_to_denies_and_a_restriction(layer_of: LayerOf) -> None:
    said = expand(layer_of("domains: [a.test]\ndeny: [b.test]\ntighten: true"), {})
    assert [str(rule.conditions.host) for rule in said.rules] == ["b.test"]
    (restriction,) = said.restrictions
    assert ([str(rule.conditions.host) for rule in restriction.rules], str(restriction.origin)) == (
        ["a.test"],
        "policy.yaml:3",
    )


@each(
    ("written", "restrictions"),
    [
        ("services: [{name: x, readonly: true}]", [()]),  # the service only has PUT, which readonly removes
        ("services: []", [()]),
        ("domains:", [()]),
        ("allow: []", [()]),
        ("host_services: {}", [()]),
        ("allow_all: true", [()]),
        ("allow_all: false", []),
        ("deny: [a.test]", []),
        ("settings: {inspect: true}", []),
    ],
)
def test_a_restricting_layer_with_any_allow_section_restricts_even_without_rules(
    layer_of: LayerOf, written: str, restrictions: list[tuple[()]]
) -> None:
    service = layer_of("domains: [{host: a.test, rules: [{methods: [PUT]}]}]", name="service x")
    said = expand(layer_of(f"tighten: true\n{written}"), {"x": service})
    assert [restriction.rules for restriction in said.restrictions] == restrictions


def test_a_replacing_entry_drops_the_allows_of_services_for_its_host(layer_of: LayerOf) -> None:
    service = layer_of("domains: [a.test, b.test]\ndeny: [a.test]", name="service x", file="services/x.yaml")
    layer = layer_of("services: [x]\ndomains: [{host: a.test, merge_mode: replace, ports: [1]}]")
    said = expand(layer, {"x": service})
    assert [str(rule.origin) for rule in said.rules] == ["services/x.yaml:1", "services/x.yaml:2", "policy.yaml:2"]
    assert said.replaced == {layer.spec.domains[0].host}


def test_a_replacing_service_names_the_layer_whose_rules_it_drops(layer_of: LayerOf) -> None:
    service = layer_of("domains: [a.test]", name="service x", file="services/x.yaml")
    said = expand(layer_of("services: [{name: x, merge_mode: replace}]"), {"x": service})
    assert (said.replaced, len(said.rules)) == (frozenset({"service x"}), 1)


def test_a_host_service_allows_the_name_or_network_that_clients_request(layer_of: LayerOf) -> None:
    layer = layer_of(
        """
        host_services:
          ollama: {to: host:11434, methods: [GET], reason: models}
          lan: {to: 10.1.2.0/24, ports: [80, 8080]}
        """
    )
    got = expand(layer, {})
    told = [(str(rule), str(rule.origin), rule.reason, rule.conditions.ports) for rule in got.rules]
    assert told == [
        ("GET, HEAD ollama on port 11434", "policy.yaml:3", "models", frozenset({11434})),
        ("any method 10.1.2.0/24 on port 80, 8080", "policy.yaml:4", "", frozenset({80, 8080})),
    ]
    assert [(row.name, str(row.asked), row.to) for row in got.host_services] == [
        ("ollama", "ollama", "host"),
        ("lan", "10.1.2.0/24", ""),
    ]


def test_ignores_host_services_of_a_restricting_layer(layer_of: LayerOf) -> None:
    got = expand(layer_of("tighten: true\nhost_services: {db: {to: db.internal:1}}"), {})
    assert (got.rules, got.host_services, len(got.restrictions)) == ((), (), 1)


def test_ignores_host_services_and_host_lists_of_a_service(layer_of: LayerOf) -> None:
    listed, _ = parse_host_list("a.test", name="hosts.txt")
    service = replace(layer_of("host_services: {db: {to: evil.test:1}}", name="service x"), listed=listed)
    got = expand(layer_of("services: [x]"), {"x": service})
    assert (got.rules, got.host_services) == ((), ())


def test_a_host_list_expands_to_one_rule(layer_of: LayerOf) -> None:
    listed, _ = parse_host_list("a.test", name="hosts.txt")
    layer = replace(layer_of("version: 1\ndomains_file: hosts.txt"), listed=listed)
    told = [(str(rule), str(rule.origin)) for rule in expand(layer, {}).rules]
    assert told == [(f"any method {listed}", "policy.yaml:2")]


def test_a_repository_placeholder_is_a_literal_path_in_a_policy(layer_of: LayerOf) -> None:
    (rule,) = expand(layer_of("allow: ['GET https://a.test/{repo}']"), {}).rules
    assert rule.conditions.path == parse_path_pattern(PathKind.EXACT, "/{repo}")


FORGE = """
options: {repos: repositories, git: {access: [read, readwrite]}}
domains:
  - host: a.test
    rules:
      - {methods: [GET], path: {prefix: "/{repo}/"}}
      - {methods: [POST], path: {exact: "/{repo}/push"}, when: {git: readwrite}}
deny: [b.test]
"""


def of_forge(layer_of: LayerOf, entry: str) -> list[str]:
    service = parse_service(FORGE, name="x", file="x.yaml", shown="x.yaml")
    return [f"{rule.effect} {rule}" for rule in expand(layer_of(f"services: [{entry}]"), {"x": service}).rules]


@pytest.mark.parametrize(
    ("entry", "rules"),
    [
        ("x", ["allow GET, HEAD a.test/*/*", "allow GET, HEAD a.test/*/*/**"]),
        ("{name: x, repos: [o/n]}", ["allow GET, HEAD a.test/o/n/..."]),
        (
            "{name: x, repos: [o/n], git: {access: readwrite}}",
            ["allow GET, HEAD a.test/o/n/...", "allow POST a.test/o/n/push"],
        ),
        (
            "{name: x, repos: [o/n], git: {access: readwrite}, readonly: true}",
            ["allow GET, HEAD a.test/o/n/..."],
        ),
    ],
)
def test_a_service_adds_the_rules_of_the_chosen_options_and_all_its_denies(
    layer_of: LayerOf, entry: str, rules: list[str]
) -> None:
    assert of_forge(layer_of, entry) == [*rules, "deny any method b.test"]


def test_reports_an_invalid_service_option_with_its_line(layer_of: LayerOf) -> None:
    with pytest.raises(UserError) as error:
        of_forge(layer_of, "{name: x, repos: [o]}")
    hint = 'write `owner/name`, or "owner/*" for all of an owner'
    assert str(error.value) == f"policy.yaml:1: not a repository: 'o'; {hint}"


def test_denies_match_paths_in_any_case_and_allows_in_exact_case(layer_of: LayerOf) -> None:
    rules = "[{host: a.test, rules: [{path: {prefix: /Admin}}]}]"
    allow, deny = (rule.conditions.path for rule in expand(layer_of(f"domains: {rules}\ndeny: {rules}"), {}).rules)
    assert allow is not None
    assert deny is not None
    assert [path.matches("/aDMIN") for path in (allow, deny)] == [False, True]


KEY = "{request: {headers: {X: {secret: %s, transform: {type: bearer}}}}}"


def test_a_rule_injects_its_own_secret_or_that_of_its_entry_over_https_only(layer_of: LayerOf) -> None:
    text = (
        f"domains: [{{host: a.test, transform: {KEY % 'a'}, rules: [{{methods: [GET]}}, {{transform: {KEY % 'b'}}}]}}]"
    )
    rules = expand(layer_of(text), {}).rules
    assert [str(rule.conditions.inject) for rule in rules] == ["secret a in x", "secret b in x"]
    assert {rule.conditions.schemes for rule in rules} == {frozenset({"https"})}


def test_rejects_transform_in_a_restricting_layer(layer_of: LayerOf) -> None:
    with pytest.raises(UserError) as raised:
        expand(layer_of(f"tighten: true\ndomains:\n- {{host: a.test, transform: {KEY % 'a'}}}"), {})
    assert str(raised.value.problems[0]) == (
        "policy.yaml:3: a restricting layer cannot inject secret a in x; "
        "move `transform` to the layer that allows the request"
    )


def test_each_rule_of_an_entry_has_its_budget(layer_of: LayerOf) -> None:
    text = (
        "settings: {budget: {upload: 1KiB/day}}\ndomains: [{host: a.test, budget: {requests: 1/min}, rules: [{}, {}]}]"
    )
    rules = expand(layer_of(text.replace("{}, {}", "{methods: [GET]}, {path: {prefix: /x}}")), {})
    assert [str(rule.conditions.budget) for rule in rules.rules] == ["1 requests per min"] * 2
    assert [(one.key, str(one.origin), str(one.budget)) for one in rules.budgets] == [
        ("project settings", "policy.yaml:1", "1KiB of upload per day")
    ]


def test_a_service_has_one_budget_for_all_its_rules(layer_of: LayerOf) -> None:
    services = {"x": replace(layer_of("domains: [a.test, b.test]"), name="service x")}
    rules = expand(layer_of("services:\n- {name: x, budget: {requests: 1/min}}"), services)
    assert [(one.key, str(one.origin), one.service) for one in rules.budgets] == [
        ("project service x", "policy.yaml:2", "service x")
    ]
