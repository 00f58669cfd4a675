import pytest

from agent_sandbox.policy import PolicySpec, compile_policy, decide
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policyfile import parse_service, shipped_services
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request
from agent_sandbox.policytools.services import Difference, choices, difference, entries, rules_of

ONE = """
date: "2025-01-01"
domains:
  - host: a.test
    risk: little
    rules: [{methods: [GET], reason: pages}, {methods: [POST], path: {exact: /x}, reason: questions}]
  - b.test
"""


def service(text: str, name: str = "x") -> Layer:
    return parse_service(text, name=name, file=name, shown=f"services/{name}.yaml")


def told(difference: Difference) -> list[tuple[str, tuple[str, str], list[str], list[str]]]:
    return [
        (change.name, change.dates, [*map(str, change.opened)], [*map(str, change.closed)])
        for change in difference.changed
    ]


def test_each_host_has_its_own_rules() -> None:
    found = list(entries(service(ONE)))
    assert [(str(entry.spec.host), entry.spec.risk, [*map(str, entry.rules)]) for entry in found] == [
        ("a.test", "little", ["GET, HEAD a.test", "POST a.test/x"]),
        ("b.test", "", ["any method b.test"]),
    ]
    assert [rule for entry in found for rule in entry.rules] == list(rules_of(service(ONE)))


def test_lists_all_rules_with_the_options_that_they_require() -> None:
    forge = service("""
options: {repos: repositories, git: {access: [read, readwrite]}}
domains:
  - host: a.test
    rules:
      - {when: {repos: any}, methods: [GET]}
      - {when: {repos: named}, methods: [GET], path: {prefix: "/{repo}"}}
      - {when: {git: readwrite}, methods: [POST], path: {glob: "/{repo}/push"}}
""")
    asked = choices(forge)
    assert [(str(rule), asked[rule.origin.line]) for rule in rules_of(forge)] == [
        ("GET, HEAD a.test", "repos: any"),
        ("GET, HEAD a.test/owner/name/...", "repos: named"),
        ("POST a.test/*/*/push", "git: readwrite"),
    ]
    assert choices(service(ONE)) == {}


@pytest.mark.parametrize(
    ("name", "option", "method", "url"),
    [
        ("claude", "login", "POST", "https://api.anthropic.com/api/oauth/claude_cli/create_api_key"),
        ("copilot", "secret", "GET", "https://api.github.com/copilot_internal/v2/token"),
    ],
)
def test_denies_token_exchange_when_the_proxy_injects_the_secret(name: str, option: str, method: str, url: str) -> None:
    shipped = dict(shipped_services())
    effects = []
    for options in ({}, {option: "a"}):
        spec = PolicySpec.model_validate({"services": [{"name": name, **options}]})
        policy = compile_policy([Layer(name="project", file="policy.yaml", spec=spec, lines={})], shipped)
        effects.append(str(decide(policy, read_request(policy, RequestLine(method=method, url=url))).effect))
    assert effects == ["allow", "deny"]


def test_lists_added_removed_and_changed_services() -> None:
    new = ONE.replace("2025-01-01", "2026-01-01").replace("/x", "/y")
    got = difference({"x": service(ONE), "gone": service(ONE)}, {"x": service(new), "come": service(ONE)})
    assert (got.added, got.removed) == (("come",), ("gone",))
    assert told(got) == [("x", ("2025-01-01", "2026-01-01"), ["POST a.test/y"], ["POST a.test/x"])]


def test_reordered_or_reworded_rules_are_not_a_difference() -> None:
    moved = "domains: [b.test, {host: a.test, rules: [{methods: [POST], path: {exact: /x}}, {methods: [GET, HEAD]}]}]"
    assert difference({"x": service(ONE)}, {"x": service(moved)}) == Difference(added=(), removed=(), changed=())


def test_a_deny_that_becomes_an_allow_is_a_difference() -> None:
    deny, allow = "deny: [{host: a.test, ports: [443]}]", "domains: [{host: a.test, ports: [443]}]"
    assert [len(change.opened) for change in difference({"x": service(deny)}, {"x": service(allow)}).changed] == [1]
