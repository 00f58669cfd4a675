import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Policy, compile_policy
from agent_sandbox.policy.compiler.codec import CONDITIONS, DEFAULTS, NotEncodableError, decode_policy, encode_policy
from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.http.graphql_operation import Confinement, operation_pattern
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.upstream import Authorities
from policy_texts import LayerOf

type PolicyOf = Callable[..., Policy]

EVERYTHING = """
domains:
- a.test
- {host: "*.b.test", merge_mode: replace}
- host: .c.test
  ports: [8443]
  encoded_slash: true
  rules:
  - {methods: [GET], schemes: [https], path: {exact: /x}, query: {exact: {q: ["1", "2"]}}, reason: "why: this"}
  - {path: {prefix: /v1/}, headers: {x: "y"}, max_body: 1MiB}
  - {path: {glob: /a/*/**}, graphql: {query: [viewer], mutation: [a, b]}}
  - {mcp: {tools: [search, read_*], methods: [prompts/list]}}
- {host: d.test, inspect: false, budget: {requests: 5/min, download: 1GiB/day}}
- {host: g.test, ask: true}
- host: f.test
  transform:
    request:
      headers:
        Authorization: {secret: a, transform: {type: basic, username: bot}}
        X-Key: {secret: b, transform: {type: bearer}}
        X-Raw:
          secret: c
          transform: {type: raw}
          client_shim: {kind: env, name: C_KEY, prefix: c-}
          other_headers: [Cookie]
          other_parameters: [key]
      on_existing_header: replace
allow: [GET https://e.test/]
deny:
- POST https://a.test/admin/**
- {host: a.test, rules: [{path: {exact: /x/}}, {path: {glob: /*/y/}}, {path: {prefix: /z/}}]}
host_services: {db: {to: 10.1.2.3:5433}, net: {to: 10.2.0.0/16, ports: [80, 81]}}
settings: {block_status: 418, inspect: true, reload: watch, budget: {upload: 1MiB/hour}}
"""


def again(policy: Policy) -> Policy:
    return decode_policy(json.loads(json.dumps(encode_policy(policy))), {})


def test_round_trips_the_budget_of_a_service(layer_of: LayerOf) -> None:
    text = "services: [{name: x, budget: {requests: 7/min}}]"
    policy = compile_policy([layer_of(text)], {"x": layer_of("domains: [a.test]")})
    assert (again(policy), again(policy).rules.budgets[0].service) == (policy, policy.rules.budgets[0].service)


@pytest.mark.parametrize("text", ["", "domains: [a.test]", EVERYTHING])
def test_round_trips_policies(policy_of: PolicyOf, text: str) -> None:
    policy = policy_of(text)
    assert again(policy) == policy
    # Comparing rules ignores these fields.
    read, written = (
        [(rule.verdict, rule.ports, rule.methods, rule.plain) for rule in one.rules.rules]
        for one in (again(policy), policy)
    )
    assert read == written


def test_round_trips_a_graphql_confinement(policy_of: PolicyOf) -> None:
    policy = policy_of("domains: [a.test]")
    confined = Confinement(
        types=(("query", (("a", ""),)),), scoped=(("a", ("b", "c")),), ids_of=("query",), repositories=("o/app",)
    )
    pattern = operation_pattern({"query": ["a"]}, confined)
    rules = tuple(
        dataclasses.replace(rule, conditions=replace(rule.conditions, graphql=pattern)) for rule in policy.rules.rules
    )
    written = Policy.of(dataclasses.replace(policy.rules, rules=rules))
    assert again(written) == written


def test_round_trips_a_restriction_with_its_rules(policy_of: PolicyOf) -> None:
    policy = policy_of("domains: [a.test]")
    tight = policy_of("tighten: true\ndomains: [a.test]\nsettings: {inspect: true}")
    both = Policy.of(policy.rules + tight.rules)
    assert len(both.rules.restrictions) == 1
    assert again(both) == both


def test_round_trips_replaced_services() -> None:
    policy = Policy.of(RuleSet(replaced=frozenset({"service x"})))
    assert again(policy) == policy


@pytest.mark.parametrize(
    "said", ["ca: corp.pem", "proxy: 'https://proxy.corp.example:3129', no_proxy: [.near.example]"]
)
def test_round_trips_upstream_settings_with_their_certificates(layer_of: LayerOf, said: str) -> None:
    layer = layer_of(f"domains: [a.test]\nsettings: {{upstream: {{{said}}}}}")
    authorities = Authorities(name="corp.pem (sha256 1)", pem="-----BEGIN") if said.startswith("ca") else None
    policy = compile_policy([replace(layer, authorities=authorities)], {})
    read = again(policy)
    assert (read, read.authorities) == (policy, policy.authorities)
    assert policy.settings.upstream
    assert read.settings.upstream
    assert read.settings.upstream.origin == policy.settings.upstream.origin


def test_looks_up_host_lists_by_name_and_content_hash() -> None:
    listed, _ = parse_host_list("a.test\n*.b.test", name="hosts.txt")
    origin = Origin(file="policy.yaml", line=1, layer="project")
    policy = Policy.of(RuleSet(rules=(Rule(effect=Effect.ALLOW, conditions=Conditions(host=listed), origin=origin),)))
    form = json.loads(json.dumps(encode_policy(policy)))
    read = decode_policy(form, {listed.name: listed})
    assert (read, read.rules.rules[0].conditions.host) == (policy, listed)
    with pytest.raises(KeyError):
        decode_policy(form, {"hosts.txt (sha256 other)": listed})


def test_rejects_a_host_list_from_which_a_host_was_removed() -> None:
    listed, _ = parse_host_list("a.test", name="hosts.txt")
    less = listed.without([parse_host_pattern("a.test")])
    origin = Origin(file="policy.yaml", line=1, layer="user")
    rule = Rule(effect=Effect.ALLOW, conditions=Conditions(host=less), origin=origin)
    with pytest.raises(NotEncodableError):
        encode_policy(Policy.of(RuleSet(rules=(rule,))))


def test_encodes_every_condition() -> None:
    assert set(Conditions.__struct_fields__) == {"host", *CONDITIONS}


def test_rejects_a_condition_that_it_cannot_encode(policy_of: PolicyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of("domains: [{host: a.test, rules: [{max_body: 1}]}]")
    monkeypatch.delitem(CONDITIONS, "max_body")
    with pytest.raises(NotEncodableError):
        encode_policy(policy)
    assert again(policy_of("domains: [a.test]")) == policy_of("domains: [a.test]")
    assert DEFAULTS["max_body"] is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreRules(RuleSet):
    """A rule set with a field that the codec does not know."""

    more: int = 0


def test_rejects_a_rule_set_with_other_fields_or_setting_values(policy_of: PolicyOf) -> None:
    policy = policy_of("")
    assert again(dataclasses.replace(policy, rules=MoreRules())) == policy
    for rules in (MoreRules(more=1), RuleSet(settings={"http1": ["a", "b"]})):
        with pytest.raises(NotEncodableError):
            encode_policy(dataclasses.replace(policy, rules=rules))
