import pytest

from agent_sandbox.policytools.importing.reading import read_old
from agent_sandbox.policytools.importing.records import (
    HEADER,
    PREFIX,
    Imported,
    Note,
    Record,
    entry_lines,
    left_out,
    old_rule,
)
from table_tests import each


def test_writes_an_entry_with_one_line_for_each_rule() -> None:
    assert entry_lines("a.test") == ["  - a.test"]
    assert entry_lines({"name": "x", "repos": ["a/b"]}) == ["  - {name: x, repos: [a/b]}"]
    entry = {"host": "a.test", "merge_mode": "replace", "rules": [{"methods": ["GET"]}, {"schemes": ["https"]}]}
    assert entry_lines(entry) == [
        "  - host: a.test",
        "    merge_mode: replace",
        "    rules:",
        "      - {methods: [GET]}",
        "      - {schemes: [https]}",
    ]


def test_writes_sections_in_order_and_omits_empty_sections() -> None:
    assert Imported().text() == f"{HEADER}\nversion: 1\n"
    found = Imported(allow=["GET https://a.test/"], services=["x"])
    assert found.text() == f"{HEADER}\nversion: 1\n\nservices:\n  - x\n\nallow:\n  - GET https://a.test/\n"


@each(
    ("text", "rule"),
    [
        ("methods: [get, POST, GET]", {"methods": ["GET", "POST"]}),
        ("{method: get, scheme: HTTPS}", {"methods": ["GET"], "schemes": ["https"]}),
        ("{methods: [GET], method: put}", {"methods": ["GET", "PUT"]}),
        ("path: {prefix: /a/}", {"path": {"prefix": "/a/"}}),
        ("query: {exact: {a: [b, c]}}", {"query": {"exact": {"a": ["b", "c"]}}}),
        # The old format writes queries as in a URL.
        ('query: {exact: {token: ["%2B"]}}', {"query": {"exact": {"token": ["+"]}}}),
        ("query: {exact: {q: a+b%20c}}", {"query": {"exact": {"q": ["a b c"]}}}),
        ("query: {exact: {a: x, '%61': [z]}}", {"query": {"exact": {"a": ["x", "z"]}}}),
    ],
)
def test_converts_a_rule_to_the_policy_language(text: str, rule: object) -> None:
    old, found = read_old(text, file="f"), Imported()
    assert (old_rule(old, dict(old.value), (), found), old.problems, found.notes) == (rule, [], [])


@pytest.mark.parametrize(
    ("text", "rule", "what"),
    [
        ("path: {prefix: /a}", {"path": {"prefix": "/a"}}, PREFIX.format("/a")),
        ("methods: [GET, trace]", {"methods": ["GET"]}, "left out: CONNECT and TRACE, which a rule cannot allow"),
    ],
)
def test_notes_what_the_imported_rule_allows_differently(text: str, rule: object, what: str) -> None:
    old, found = read_old(text, file="f"), Imported()
    assert old_rule(old, dict(old.value), (), found) == rule
    assert found.notes == [Note(where="f:1", what=what)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "f:1: a rule without conditions; to allow everything on a host, write only the host"),
        ("methods: []", "f:1: `methods` is empty"),
        ("methods: [3]", "f:1: `methods` has to be text, not `3`; write `methods: [GET]`"),
        ("query: {exact: {a: '%FF'}}", "f:1: '%FF' is not UTF-8 when decoded; remove the parameter"),
        ("hots: a", "f:1: unknown key `hots`; known: method, methods, path, query, scheme, schemes"),
    ],
)
def test_rejects_empty_and_invalid_rules(text: str, problem: str) -> None:
    old = read_old(text, file="f")
    old_rule(old, dict(old.value), (), Imported())
    assert [str(one) for one in old.problems] == [problem]


def test_leaves_out_an_unsupported_rule_with_a_note() -> None:
    record, found = Record(host="a.test", where="f:1"), Imported()
    record.add({"path": {"exact": "/a/../b"}}, "f:2", found)
    record.add({"methods": ["GET"]}, "f:3", found)
    assert [one.rule for one in record.taken] == [{"methods": ["GET"]}]
    assert found.notes == [left_out("f:2", "the path contains a dot segment: '/a/../b'")]


def test_converts_a_record_to_an_entry() -> None:
    record = Record(host="a.test", where="")
    assert record.value([None]) == "a.test"
    assert record.value([{"methods": ["GET"]}]) == {"host": "a.test", "rules": [{"methods": ["GET"]}]}
    record.replaces = True
    assert record.value([None]) == {"host": "a.test", "merge_mode": "replace"}


def test_a_record_covers_conditions_that_one_of_its_rules_covers() -> None:
    some, every = Record(host="a.test", where=""), Record(host="a.test", where="")
    some.add({"methods": ["GET"]}, "", Imported())
    every.add(None, "", Imported())
    assert (every.takes(some.taken[0].conditions), some.takes(every.taken[0].conditions)) == (True, False)
