from collections.abc import Callable

from agent_sandbox.policytools.lint.services import duplicate_service, unused_service

type Find = Callable[..., list[tuple[int, str]]]

SERVICES = {"s": "domains: [{host: a.test, rules: [{methods: [GET]}]}]", "t": "domains: [b.test, c.test]"}


def test_a_service_that_is_here_twice_is_found(find: Find) -> None:
    text = "services:\n  - s\n  - t\n  - s\n  - {name: t, merge_mode: replace}\n"
    assert find(duplicate_service, text, services=SERVICES) == [(4, "service `s` is here twice, first on line 2")]


def test_a_service_that_adds_nothing_is_found(find: Find) -> None:
    text = "services:\n  - s\n  - t\ndomains: [a.test, b.test]\n"
    what = "service `{}` adds nothing: other rules deny or allow all that it allows".format
    assert find(unused_service, text, services=SERVICES) == [(2, what("s"))]
    assert find(unused_service, f"{text}deny: [c.test]\n", services=SERVICES) == [(2, what("s")), (3, what("t"))]


def test_a_service_without_rules_is_no_finding(find: Find) -> None:
    assert find(unused_service, "services: [s]", services={"s": "deny: [a.test]"}) == []
