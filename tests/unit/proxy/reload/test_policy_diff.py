from collections.abc import Callable

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.reload.policy_diff import Change, change


def test_the_summary_lists_changed_rules_with_their_origins(policy: Callable[[str], Policy]) -> None:
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


def test_lists_hosts_that_are_no_longer_reachable(policy: Callable[[str], Policy]) -> None:
    old = policy('domains: [a.test, b.test, "*.c.test", .d.test, {host: e.test, ports: [8443]}]')
    new = policy("domains: [b.test, d.test, e.test]\ndeny: [b.test]")
    assert change(old, new).unreachable == ("*.c.test", "*.d.test", "a.test", "b.test")


def test_a_rule_that_only_moved_is_no_change(policy: Callable[[str], Policy]) -> None:
    got = change(policy("domains: [a.test, b.test]"), policy("domains:\n- b.test\n\n- a.test"))
    assert got == Change(added=(), removed=(), others=(), unreachable=())


def test_lists_changed_settings(policy: Callable[[str], Policy]) -> None:
    got = change(policy("domains: [a.test]"), policy("domains: [a.test]\nsettings: {block_status: 418}"))
    assert got == Change(added=(), removed=(), others=("- block_status: 403", "+ block_status: 418"), unreachable=())
    assert (got.summary()["others"], got.counts["others"]) == (["- block_status: 403", "+ block_status: 418"], 2)


def test_the_summary_lists_20_of_many_changes_and_counts_all(policy: Callable[[str], Policy]) -> None:
    old = policy("domains:\n" + "".join(f"- h{number}.test\n" for number in range(30)))
    told = change(old, policy("domains: [other.test]")).summary()
    removed, unreachable = told["removed"], told["unreachable"]
    assert isinstance(removed, list)
    assert isinstance(unreachable, list)
    assert (len(removed), len(unreachable)) == (20, 20)
    assert told["counts"] == {"added": 1, "removed": 30, "others": 0, "unreachable": 30}


def test_lists_rules_of_policy_files_before_rules_of_services(policy: Callable[[str], Policy]) -> None:
    new = policy("services: [github, claude, copilot]\ndomains: [a.test]\ndeny: [b.test]")
    added = change(policy(""), new).summary()["added"]
    assert isinstance(added, list)
    assert len(added) == 20
    assert [rule["rule"] for rule in added[:2]] == ["any method a.test", "any method b.test"]
    assert all(rule["origin"].startswith("services/") for rule in added[2:])
