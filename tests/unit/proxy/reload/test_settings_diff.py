from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.proxy.reload.settings_diff import settings_changes

THROUGH = "all allowed requests go through http://{}.corp.example:3128, except near.example  (policy.yaml:2)"
UPSTREAM = "settings: {{upstream: {{proxy: 'http://{}.corp.example:3128', no_proxy: [near.example]}}}}"
PLACES = "host_services: {{ollama: {{to: 'host:{}'}}}}"


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
    policy: Callable[[str], Policy], old: str, new: str, expected: tuple[str, ...]
) -> None:
    assert settings_changes(policy(old), policy(new)) == expected


def test_lists_a_restricting_layer_also_when_its_rules_change(
    policy: Callable[[str], Policy],
) -> None:
    free, wide = policy("").rules, policy("domains: [a.test, b.test]").rules
    origin = Origin(file="policy.yaml", line=1, layer="user")
    narrow = replace(free, restrictions=(Restriction(origin=origin, rules=wide.rules),), always_inspects=True)
    less = replace(narrow, restrictions=(Restriction(origin=origin, rules=wide.rules[:1]),))
    first, second, third = (Policy.of(rules) for rules in (free, narrow, less))
    opened = "TLS to every host is inspected, even where another layer says `inspect: false`"
    assert settings_changes(first, second) == (f"+ {opened}", "+ restricted by layer user")
    assert settings_changes(second, third) == ("- restricted by layer user", "+ restricted by layer user")
