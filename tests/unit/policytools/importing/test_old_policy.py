import pytest

from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policytools.importing import old_policy
from agent_sandbox.policytools.importing.old_policy import import_policies
from agent_sandbox.policytools.importing.records import BY_NAME, OVER_TLS
from agent_sandbox.policytools.importing.result import HEADER, Imported, left_out
from agent_sandbox.problems import UserError
from table_tests import each

SERVICES = dict(shipped_services())
GENERAL = [("f", old_policy.PORTS), ("f", old_policy.METHODS)]


def imported(*texts: str) -> Imported:
    names = ("f", "g", "h")
    return import_policies(list(zip(names, texts, strict=False)), known=SERVICES)


def notes(found: Imported) -> list[tuple[str, str]]:
    return [(note.where, note.what) for note in found.notes]


def test_a_host_alone_stays_one_and_a_wildcard_takes_its_apex() -> None:
    found = imported('domains:\n  - A.test\n  - "*.b.test"\n')
    assert found.text() == f'{HEADER}\nversion: 1\n\ndomains:\n  - a.test\n  - ".b.test"\n'
    assert notes(found) == GENERAL


def test_rules_are_taken_over_one_by_one() -> None:
    text = """\
domains:
  - host: a.test
    transform: {request: {headers: {X-Key: {secret: k, transform: {type: bearer}}}}}
    rules:
      - {methods: [get], path: {prefix: /v1/}, query: {exact: {}}}
      - {path: {exact: /a/../b}}
"""
    found = imported(text)
    rule = {"methods": ["GET"], "path": {"prefix": "/v1/"}, "query": {"exact": {}}}
    transform = {"request": {"headers": {"X-Key": {"secret": "k", "transform": {"type": "bearer"}}}}}
    assert found.domains == [{"host": "a.test", "transform": transform, "rules": [rule]}]
    assert notes(found) == [
        ("f:3", BY_NAME),
        ("f:6", "left out: the path contains a dot segment: '/a/../b'"),
        ("f", old_policy.PORTS),
        ("f", old_policy.HEAD),
    ]


def test_what_our_language_has_no_host_for_is_left_out() -> None:
    found = imported('domains: ["*.com", a.test]\nother: 1\n')
    assert found.domains == ["a.test"]
    what = "left out: `.com` matches every name that anyone registers below `com`"
    assert notes(found)[:2] == [("f:1", what), ("f:2", "left out: `other` is not supported")]


@each(
    ("wide", "narrow"),
    [
        ("*.bücher.example", "api.bücher.example"),
        ("*.xn--bcher-kva.example", "api.bücher.example"),
        ("*.bücher.example", "api.xn--bcher-kva.example."),
    ],
)
def test_a_wildcard_and_a_narrower_host_meet_in_any_spelling(wide: str, narrow: str) -> None:
    found = imported(f'domains: ["{wide}", {{host: "{narrow}", rules: [{{methods: [GET]}}]}}]')
    assert found.domains == [{"host": "api.xn--bcher-kva.example", "rules": [{"methods": ["GET"]}]}]


@pytest.mark.parametrize("entry", [".a.test", "{host: .a.test, rules: [{methods: [GET]}]}"])
def test_a_host_that_begins_with_a_dot_matched_nothing_and_is_left_out(entry: str) -> None:
    found = imported(f"domains: [{entry}]")
    assert found.domains == []
    assert found.notes == [left_out("f:1", old_policy.NO_HOST.format("'.a.test'"))]


def test_a_section_that_is_dropped_counts_as_left_out() -> None:
    found = imported("domains: [a.test]\ndeny: [a.test]\n")
    assert left_out("f:2", "`deny` is not supported") in found.notes


def test_a_value_that_is_missing_is_not_the_word_none() -> None:
    found = imported("domains: [{host: a.test, rules: [{query: {exact: {x: null}}}]}]")
    assert found.domains == []
    assert [note.left_out for note in found.notes] == [True]


def test_a_later_file_adds_to_an_earlier_one_or_replaces_what_it_says_of_a_host() -> None:
    lower = "domains: [a.test, b.test]"
    higher = "domains: [{host: a.test, merge_mode: replace, rules: [{methods: [GET, HEAD]}]}, c.test]"
    found = imported(lower, higher)
    rules = [{"methods": ["GET", "HEAD"]}]
    assert found.domains == ["b.test", {"host": "a.test", "merge_mode": "replace", "rules": rules}, "c.test"]


@each(
    ("narrow", "host"),
    [
        ("- b.a.test", ""),
        ("- {host: x.test, rules: [{methods: [GET, HEAD]}]}", ""),
        ("- {host: b.a.test, rules: [{methods: [GET, HEAD]}]}", "b.a.test"),
        ('- {host: "*.b.a.test", rules: [{methods: [GET, HEAD]}]}', ".b.a.test"),
        ("- {host: a.test, rules: [{path: {exact: /..}}]}", "a.test"),
    ],
)
def test_a_wildcard_that_would_open_a_narrower_host_is_left_out(narrow: str, host: str) -> None:
    found = imported(f'domains:\n  - "*.a.test"\n  {narrow}\n')
    told = [what for where, what in notes(found) if where == "f:2"]
    assert told == (["left out: " + old_policy.SHADOWED.format(".a.test", host)] if host else [])
    assert (".a.test" in found.domains) == (not host)


def test_an_exact_host_stands_over_the_wildcard_of_a_service() -> None:
    found = imported(
        "services: [github]\ndomains: [{host: api.github.com, rules: [{methods: [GET, HEAD]}]}, github.com]"
    )
    rules = [{"methods": ["GET", "HEAD"]}]
    assert found.domains == [{"host": "api.github.com", "merge_mode": "replace", "rules": rules}, "github.com"]


def test_every_problem_of_every_file_is_told_at_once() -> None:
    with pytest.raises(UserError) as caught:
        imported("domains: [{host: a.test}, 3]", "domains: [{host: a.test, merge_mode: {}, rules: [{}]}]\n", "- a\n")
    assert [str(problem) for problem in caught.value.problems] == [
        "f:1: `rules` is missing or empty; to allow everything on a host, write only the host",
        f"f:1: not an entry of `domains`: `3`; {old_policy.AN_ENTRY}",
        "g:1: `merge_mode` can only be `replace`",
        "g:1: a rule without conditions; to allow everything on a host, write only the host",
        "h:1: not a policy: keys and values expected",
    ]


def test_what_wants_a_secret_goes_over_https_alone() -> None:
    transform = "{request: {headers: {X-Key: {secret: k, transform: {type: bearer}}}}}"
    rules = "[{schemes: [http, https], methods: [GET]}]"
    found = imported(f"domains:\n  - {{host: a.test, transform: {transform}, rules: {rules}}}\n")
    assert [entry["rules"] for entry in found.domains] == [[{"methods": ["GET"], "schemes": ["https"]}]]
    assert notes(found)[:2] == [("f:2", BY_NAME), ("f:2", OVER_TLS)]


def test_a_host_that_is_none_here_is_left_out_beside_a_wildcard_that_contains_it() -> None:
    replaced = '{host: "*.b d.test", merge_mode: replace, rules: [{methods: [GET]}]}'
    found = imported(f'services: [github]\ndomains: ["*.a.test", b d.a.test, {replaced}]')
    assert found.domains == [".a.test"]
    assert [note.where for note in found.notes if note.left_out] == ["f:2", "f:2"]
