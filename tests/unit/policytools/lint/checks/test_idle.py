import pytest

from agent_sandbox.policytools.compare import rule_cover
from agent_sandbox.policytools.lint.checks.idle import covered, half_denied, hidden_by_deny, never_matches
from policy_texts import Find
from table_tests import each

TEXT = """
domains:
  - www.example.com
  - host: api.example.com
    rules: [{schemes: [https]}]
  - host: old.example.com
    rules: [{methods: [DELETE], schemes: [http], path: {exact: /x/1}}]
deny:
  - POST https://www.example.com/admin/**
  - POST https://api.example.com/admin/**
  - GET http://www.example.com/a
  - GET https://www.example.com/a
  - host: old.example.com
    rules: [{schemes: [https], path: {prefix: /x}}]
  - host: www.example.com
    ports: [8443]
    rules: [{schemes: [https]}]
"""


@pytest.mark.parametrize("host", ["*.internal.invalid", "a.onion"])
def test_finds_hosts_that_can_never_be_reached(find: Find, host: str) -> None:
    ((line, what),) = find(never_matches, f'domains:\n  - "{host}"')
    assert (line, what.partition(":")[0]) == (2, f"`{host}` can never be reached")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("app.lvh.me", "127.0.0.1"),
        ("localtest.me", "127.0.0.1"),
        ("10.0.0.1.nip.io", "10.0.0.1"),
        ("app-192-168-1-5.sslip.io", "192.168.1.5"),
    ],
)
def test_finds_public_names_that_resolve_to_private_addresses(find: Find, host: str, address: str) -> None:
    found = find(never_matches, f"domains:\n  - {host}")
    assert found == [(2, f"`{host}` can never be reached: it leads to {address}")]


@pytest.mark.parametrize(
    "host",
    ["example.com", "internal.example.com", "*.local.example.org", "9.9.9.9.nip.io", "999.1.1.1.nip.io", "a.sslip.io"],
)
def test_ignores_other_names(find: Find, host: str) -> None:
    assert find(never_matches, f'domains:\n  - "{host}"\ndeny: [localhost]') == []


ORGANISATION = """
tighten: true
domains:
  - {host: .a.test, ports: [443], rules: [{methods: [GET], schemes: [https]}]}
"""


@each(
    ("entry", "lines"),
    [
        ("b.test", [2]),
        ('"*.b.test"', [2]),
        ('"*"\nallow_all: true', []),
        ("{host: a.test, ports: [8443]}", [2]),
        ("{host: a.test, rules: [{methods: [POST]}]}", [2]),
        ("{host: a.test, rules: [{schemes: [http]}]}", [2]),
        ("a.test", []),
        ('"*.x.a.test"', []),
        ("x.a.test", []),
    ],
)
def test_finds_entries_of_which_the_organisation_allows_nothing(find: Find, entry: str, lines: list[int]) -> None:
    found = find(never_matches, f"domains:\n  - {entry}", organisation=ORGANISATION)
    assert [
        line for line, what in found if what.endswith("can never be used: layer organisation allows none of it")
    ] == lines


def test_does_not_compare_a_restricting_layer_with_itself(find: Find) -> None:
    assert find(never_matches, f"{ORGANISATION}  - b.test") == []


HIDDEN = """
domains:
  - a.test
  - {host: b.test, rules: [{methods: [POST]}]}
  - "*.c.test"
allow:
  - GET https://d.test/x
  - GET https://e.test/x
deny:
  - b.test
  - .c.test
  - {host: a.test, rules: [{path: {prefix: /x}}]}
  - {host: d.test, rules: [{path: {prefix: /x}}]}
  - {host: e.test, rules: [{path: {prefix: /x}, query: {exact: {a: b}}}]}
"""


def test_finds_allows_that_a_deny_covers_entirely(find: Find) -> None:
    assert find(hidden_by_deny, HIDDEN) == [
        (4, "`POST b.test` is never allowed: the deny at policy.yaml:10 covers it"),
        (5, "`any method *.c.test` is never allowed: the deny at policy.yaml:11 covers it"),
        (7, "`GET, HEAD https://d.test/x` is never allowed: the deny at policy.yaml:13 covers it"),
    ]


COVERED = """
services: [s]
domains:
  - a.test
  - {host: a.test, rules: [{methods: [GET]}]}
  - {host: b.test, rules: [{path: {prefix: /v1}}, {path: {exact: /v1/x}}]}
  - .c.test
  - "*.x.c.test"
  - d.test
  - d.test
  - {host: a.test, ports: [8443]}
  - e.test
  - {host: a.test, rules: [{methods: [DELETE], ask: true}]}
"""


def test_finds_allows_that_another_allow_covers(find: Find) -> None:
    assert find(covered, COVERED, services={"s": "domains: [e.test, {host: f.test, rules: [{methods: [GET]}]}]"}) == [
        (5, "`GET, HEAD a.test` adds nothing: policy.yaml:4 allows all of it (`any method a.test`)"),
        (6, "`any method b.test/v1/x` adds nothing: policy.yaml:6 allows all of it (`any method b.test/v1/...`)"),
        (8, "`any method *.x.c.test` adds nothing: policy.yaml:7 allows all of it (`any method .c.test`)"),
        (10, "`any method d.test` adds nothing: policy.yaml:9 allows all of it (`any method d.test`)"),
        (12, "`any method e.test` adds nothing: service s.yaml:1 allows all of it (`any method e.test`)"),
    ]


def test_finds_the_same_covered_allows_when_a_host_has_many_rules(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    few = find(covered, COVERED, services={"s": ""})
    monkeypatch.setattr(rule_cover, "FEW", 0)
    assert find(covered, COVERED, services={"s": ""}) == few


def test_a_rule_without_a_secret_does_not_cover_the_same_rule_with_a_secret(find: Find) -> None:
    key = "{request: {headers: {X-Key: {secret: key, transform: {type: bearer}}}}}"
    assert find(covered, f"domains:\n- {{host: a.test, transform: {key}}}\n- a.test\n") == []
    twice = f"- {{host: a.test, transform: {key}}}\n"
    assert [line for line, _ in find(covered, f"domains:\n{twice}{twice}")] == [3]


def test_finds_denies_whose_requests_are_allowed_over_the_other_scheme(find: Find) -> None:
    what = "`{0} https://{1}` is denied, and `{0} http://{1}` is allowed by policy.yaml:{2}".format
    assert find(half_denied, TEXT) == [
        (9, what("POST", "www.example.com/admin/**", 3)),
        (14, what("any method", "old.example.com/x/...", 7)),
    ]
