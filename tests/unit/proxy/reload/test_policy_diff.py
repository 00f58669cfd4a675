from dataclasses import replace

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.proxy.reload.policy_diff import Change, change, settings_changes
from policy_texts import PolicyOf

THROUGH = "all allowed requests go through http://{}.corp.example:3128, except near.example  (policy.yaml:2)"
UPSTREAM = "settings: {{upstream: {{proxy: 'http://{}.corp.example:3128', no_proxy: [near.example]}}}}"
PLACES = "host_services: {{ollama: {{to: 'host:{}'}}}}"


def test_the_summary_lists_changed_rules_with_their_origins(policy: PolicyOf) -> None:
    old = policy("domains: [a.test, b.test]")
    new = policy("domains:\n- b.test\n- {host: a.test, rules: [{methods: [GET]}]}\ndeny: [c.test]")
    assert change(old, new).summary() == {
        "added": [
            {"effect": "allow", "rule": "GET, HEAD a.test", "origin": "policy.yaml:4"},
            {"effect": "deny", "rule": "any method c.test", "origin": "policy.yaml:5"},
        ],
        "removed": [{"effect": "allow", "rule": "any method a.test", "origin": "policy.yaml:2"}],
        "others": [],
        "unreachable": [],
        "counts": {"added": 2, "removed": 1, "others": 0, "unreachable": 0},
    }


def test_lists_hosts_that_are_no_longer_reachable(policy: PolicyOf) -> None:
    old = policy('domains: [a.test, b.test, "*.c.test", .d.test, {host: e.test, ports: [8443]}]')
    new = policy("domains: [b.test, d.test, e.test]\ndeny: [b.test]")
    assert change(old, new).unreachable == ("*.c.test", "*.d.test", "a.test", "b.test")


def test_a_rule_that_only_moved_is_no_change(policy: PolicyOf) -> None:
    got = change(policy("domains: [a.test, b.test]"), policy("domains:\n- b.test\n\n- a.test"))
    assert got == Change(added=(), removed=(), others=(), unreachable=())


def test_lists_changed_settings(policy: PolicyOf) -> None:
    got = change(policy("domains: [a.test]"), policy("domains: [a.test]\nsettings: {block_status: 418}"))
    assert got == Change(added=(), removed=(), others=("- block_status: 403", "+ block_status: 418"), unreachable=())
    assert (got.summary()["others"], got.counts["others"]) == (["- block_status: 403", "+ block_status: 418"], 2)


def test_the_summary_lists_20_of_many_changes_and_counts_all(policy: PolicyOf) -> None:
    old = policy("domains:\n" + "".join(f"- h{number}.test\n" for number in range(30)))
    told = change(old, policy("domains: [other.test]")).summary()
    removed, unreachable = told["removed"], told["unreachable"]
    assert isinstance(removed, list)
    assert isinstance(unreachable, list)
    assert (len(removed), len(unreachable)) == (20, 20)
    assert told["counts"] == {"added": 1, "removed": 30, "others": 0, "unreachable": 30}


def test_lists_rules_of_policy_files_before_rules_of_services(policy: PolicyOf) -> None:
    new = policy("services: [github, claude, copilot]\ndomains: [a.test]\ndeny: [b.test]")
    added = change(policy(""), new).summary()["added"]
    assert isinstance(added, list)
    assert len(added) == 20
    assert [rule["rule"] for rule in added[:2]] == ["any method a.test", "any method b.test"]
    assert all(rule["origin"].startswith("services/") for rule in added[2:])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "settings: {inspect: false}", ("- inspect: true", "+ inspect: false")),
        ("", "settings: {ask: unlisted}", ("+ ask: unlisted",)),
        ("settings: {ask: unlisted}", "", ("- ask: unlisted",)),
        ("settings: {reload: watch}", "", ("- reload: watch", "+ reload: restart")),
        ("", UPSTREAM.format("a"), (f"+ {THROUGH.format('a')}",)),
        (
            UPSTREAM.format("a"),
            UPSTREAM.format("b"),
            (f"- {THROUGH.format('a')}", f"+ {THROUGH.format('b')}"),
        ),
        (PLACES.format(1), PLACES.format(2), ("- ollama:1 leads to host", "+ ollama:2 leads to host")),
        (
            "",
            "host_services: {lan: {to: 10.1.2.0/24, ports: [81, 80]}}",
            ("+ 10.1.2.0/24:80,81 leads to a private network",),
        ),
        (
            "settings: {budget: {requests: 1/min}}",
            "",
            ("- budget of the sandbox: 1 requests per min  (policy.yaml:2)",),
        ),
        (
            "",
            "services: [{name: node, budget: {requests: 1/min}}]",
            ("+ budget of the service node: 1 requests per min  (policy.yaml:2)",),
        ),
        ("domains: [a.test]", "deny: [b.test]", ()),
    ],
)
def test_lists_changes_of_settings_host_services_and_budgets(
    policy: PolicyOf, old: str, new: str, expected: tuple[str, ...]
) -> None:
    assert settings_changes(policy(old), policy(new)) == expected


def test_lists_a_restricting_layer_also_when_its_rules_change(policy: PolicyOf) -> None:
    free, wide = policy("").rules, policy("domains: [a.test, b.test]").rules
    origin = Origin(file="policy.yaml", line=1, layer="user")
    narrow = replace(free, restrictions=(Restriction(origin=origin, rules=wide.rules),), always_inspects=True)
    less = replace(narrow, restrictions=(Restriction(origin=origin, rules=wide.rules[:1]),))
    first, second, third = (Policy.of(rules) for rules in (free, narrow, less))
    opened = "TLS to every host is inspected, even where another layer says `inspect: false`"
    assert settings_changes(first, second) == (f"+ {opened}", "+ restricted by layer user")
    assert settings_changes(second, third) == ("- restricted by layer user", "+ restricted by layer user")
