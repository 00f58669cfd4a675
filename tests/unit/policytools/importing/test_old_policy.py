import pytest

from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policytools.importing import old_policy
from agent_sandbox.policytools.importing.old_policy import import_policies
from agent_sandbox.policytools.importing.records import BY_NAME, HEADER, OVER_TLS, Imported, left_out
from agent_sandbox.problems import UserError
from table_tests import each

SERVICES = dict(shipped_services())
GENERAL = [("f", old_policy.PORTS), ("f", old_policy.METHODS)]


def imported(*texts: str) -> Imported:
    names = ("f", "g", "h")
    return import_policies(list(zip(names, texts, strict=False)), known=SERVICES)


def notes(found: Imported) -> list[tuple[str, str]]:
    return [(note.where, note.what) for note in found.notes]


def test_keeps_plain_hosts_and_extends_wildcards_to_their_apex() -> None:
    found = imported('domains:\n  - A.test\n  - "*.b.test"\n')
    assert found.text() == f'{HEADER}\nversion: 1\n\ndomains:\n  - a.test\n  - ".b.test"\n'
    assert notes(found) == GENERAL


def test_imports_valid_rules_and_leaves_out_invalid_rules() -> None:
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


def test_leaves_out_unsupported_hosts_and_keys() -> None:
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
def test_compares_wildcards_and_hosts_in_canonical_form(wide: str, narrow: str) -> None:
    found = imported(f'domains: ["{wide}", {{host: "{narrow}", rules: [{{methods: [GET]}}]}}]')
    assert found.domains == [{"host": "api.xn--bcher-kva.example", "rules": [{"methods": ["GET"]}]}]


@pytest.mark.parametrize("entry", [".a.test", "{host: .a.test, rules: [{methods: [GET]}]}"])
def test_leaves_out_hosts_that_begin_with_a_dot(entry: str) -> None:
    found = imported(f"domains: [{entry}]")
    assert found.domains == []
    assert found.notes == [left_out("f:1", old_policy.NO_HOST.format("'.a.test'"))]


def test_notes_an_unsupported_section_as_left_out() -> None:
    found = imported("domains: [a.test]\ndeny: [a.test]\n")
    assert left_out("f:2", "`deny` is not supported") in found.notes


def test_does_not_read_null_as_the_text_none() -> None:
    found = imported("domains: [{host: a.test, rules: [{query: {exact: {x: null}}}]}]")
    assert found.domains == []
    assert [note.left_out for note in found.notes] == [True]


def test_a_later_file_adds_hosts_or_replaces_rules_of_a_host() -> None:
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
def test_leaves_out_a_wildcard_that_would_widen_a_narrower_host(narrow: str, host: str) -> None:
    found = imported(f'domains:\n  - "*.a.test"\n  {narrow}\n')
    told = [what for where, what in notes(found) if where == "f:2"]
    assert told == (["left out: " + old_policy.SHADOWED.format(".a.test", host)] if host else [])
    assert (".a.test" in found.domains) == (not host)


def test_an_exact_host_replaces_the_rules_of_a_service() -> None:
    found = imported(
        "services: [github]\ndomains: [{host: api.github.com, rules: [{methods: [GET, HEAD]}]}, github.com]"
    )
    rules = [{"methods": ["GET", "HEAD"]}]
    assert found.domains == [{"host": "api.github.com", "merge_mode": "replace", "rules": rules}, "github.com"]


def test_reports_all_problems_of_all_files_at_once() -> None:
    with pytest.raises(UserError) as caught:
        imported("domains: [{host: a.test}, 3]", "domains: [{host: a.test, merge_mode: {}, rules: [{}]}]\n", "- a\n")
    assert [str(problem) for problem in caught.value.problems] == [
        "f:1: `rules` is missing or empty; to allow everything on a host, write only the host",
        f"f:1: not an entry of `domains`: `3`; {old_policy.AN_ENTRY}",
        "g:1: `merge_mode` can only be `replace`",
        "g:1: a rule without conditions; to allow everything on a host, write only the host",
        "h:1: not a policy: keys and values expected",
    ]


def test_limits_rules_with_a_secret_to_https() -> None:
    transform = "{request: {headers: {X-Key: {secret: k, transform: {type: bearer}}}}}"
    rules = "[{schemes: [http, https], methods: [GET]}]"
    found = imported(f"domains:\n  - {{host: a.test, transform: {transform}, rules: {rules}}}\n")
    assert [entry["rules"] for entry in found.domains] == [[{"methods": ["GET"], "schemes": ["https"]}]]
    assert notes(found)[:2] == [("f:2", BY_NAME), ("f:2", OVER_TLS)]


def test_leaves_out_invalid_hosts_and_keeps_a_wildcard_that_contains_them() -> None:
    replaced = '{host: "*.b d.test", merge_mode: replace, rules: [{methods: [GET]}]}'
    found = imported(f'services: [github]\ndomains: ["*.a.test", b d.a.test, {replaced}]')
    assert found.domains == [".a.test"]
    assert [note.where for note in found.notes if note.left_out] == ["f:2", "f:2"]
