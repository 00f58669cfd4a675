from collections.abc import Callable

import pytest

from agent_sandbox.policy import Effect, Layer, Policy, compile_policy
from agent_sandbox.policytools.edit.editing import AlreadyCovered, Edited, Readers, edit
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.problems import Problem, UserError

type LayerOf = Callable[[str], Layer]

TEXT = """\
version: 1
domains:
  - host: a.test
    rules:
      - {methods: [GET], path: {prefix: /v1/}}
      - {methods: [POST], query: {exact: {x: "1"}}}
allow:
  - GET https://b.test/*
deny:
  - DELETE https://b.test/c
"""


@pytest.fixture
def read(layer_of: LayerOf) -> Readers:
    return Readers(file="policy.yaml", layer=layer_of, policy=lambda layer: compile_policy([layer], {}))


def result(read: Readers, line: str, text: str = TEXT) -> Edited | AlreadyCovered:
    verb, _, rule = line.partition(" ")
    return edit(text, read_short_rule(Effect(verb), (rule,)), read)


def problem(read: Readers, line: str, text: str = TEXT) -> Problem:
    with pytest.raises(UserError) as caught:
        result(read, line, text)
    (found,) = caught.value.problems
    return found


def test_the_rule_goes_in_and_its_line_is_told(read: Readers) -> None:
    got = result(read, "allow POST https://b.test/new")
    expected = TEXT.replace("deny:", "  - POST https://b.test/new\ndeny:")
    assert got == Edited(text=expected, line=9)


@pytest.mark.parametrize(
    ("line", "rule", "origin"),
    [
        ("allow GET https://a.test/v1/x", "GET, HEAD a.test/v1/...", 5),
        ("allow HEAD https://a.test/v1/**", "GET, HEAD a.test/v1/...", 5),
        ("allow HEAD https://a.test/**", "", 0),
        ("allow POST https://a.test/?x=1", "POST a.test?x=1", 6),
        ("allow POST https://a.test/", "", 0),  # any query is more than one
        ("allow GET https://b.test/*", "GET, HEAD https://b.test/*", 8),
        ("allow GET https://b.test:8443/*", "", 0),
        ("allow GET http://b.test/a", "", 0),
        ("deny DELETE https://b.test/c", "DELETE https://b.test/c", 10),
        ("deny DELETE https://b.test", "", 0),
        ("deny GET https://c.test/", "", 0),  # nothing allows it now; from then on nothing ever will
    ],
)
def test_what_a_rule_says_already_changes_nothing(read: Readers, line: str, rule: str, origin: int) -> None:
    got = result(read, line)
    standing = (str(got.rule), got.rule.origin.line) if isinstance(got, AlreadyCovered) else ("", 0)
    assert standing == (rule, origin)


def test_an_allow_that_a_deny_beats_is_refused_with_its_line(read: Readers) -> None:
    got = problem(read, "allow DELETE https://b.test/c")
    what = "DELETE https://b.test/c is denied by policy.yaml:10 (DELETE https://b.test/c), and a deny always wins"
    hint = "narrow or remove that entry; nothing was changed"
    assert got == Problem(where="policy.yaml", what=what, hint=hint)


def test_a_deny_that_takes_a_part_away_is_told(read: Readers) -> None:
    got = result(read, "allow DELETE https://b.test/*")
    assert [str(rule) for rule in got.beaten_by] == ["DELETE https://b.test/c"] if isinstance(got, Edited) else False
    got = result(read, "allow DELETE https://b.test:8443/*", TEXT.replace("b.test/c", "b.test:99/c"))
    assert isinstance(got, Edited)
    assert got.beaten_by == ()


def test_a_deny_whose_query_no_request_can_have_is_none_to_tell(read: Readers) -> None:
    text = TEXT.replace("b.test/c", f"b.test/c?{'x' * 33_000}")
    got = result(read, "allow DELETE https://b.test/c", text)
    assert isinstance(got, Edited)
    assert got.beaten_by == ()


def test_file_with_an_unsupported_layout_is_not_edited(read: Readers) -> None:
    what = "cannot add GET https://b.test/ to this file automatically"
    expected = Problem(where="policy.yaml", what=what, hint="add `- GET https://b.test/` under `allow` by hand")
    assert problem(read, "allow GET https://b.test/", "{allow}\n") == expected


def test_what_the_new_text_says_is_read_before_it_is_believed(layer_of: LayerOf) -> None:
    texts: list[str] = []

    def forgetful(text: str) -> Layer:
        texts.append(text)
        if len(texts) == 1:
            return layer_of(text)
        raise UserError([Problem(where="policy.yaml:1:1", what="no")])

    for layer in (forgetful, lambda _: layer_of("")):
        read = Readers(file="policy.yaml", layer=layer, policy=lambda layer: compile_policy([layer], {}))
        assert problem(read, "allow GET https://b.test/", "").hint.endswith("by hand")


def test_an_allow_that_something_around_the_file_denies_is_refused(layer_of: LayerOf) -> None:
    closed = Policy.deny_all("the organisation allows nothing")
    read = Readers(file="policy.yaml", layer=layer_of, policy=lambda _: closed)
    what = "GET https://b.test/ would still be denied: the organisation allows nothing"
    expected = Problem(where="policy.yaml", what=what, hint="nothing was changed")
    assert problem(read, "allow GET https://b.test/", "") == expected


def test_an_allow_beyond_a_restriction_allows_nothing(layer_of: LayerOf) -> None:
    restriction = layer_of("tighten: true\ndomains: [b.test]\n")
    read = Readers(file="policy.yaml", layer=layer_of, policy=lambda layer: compile_policy([restriction, layer], {}))
    what = problem(read, "allow GET https://a.test/v1/x").what
    assert what.startswith("GET https://a.test/v1/x would still be denied: ")


def test_a_file_that_is_no_policy_is_not_touched(read: Readers) -> None:
    assert problem(read, "allow GET https://b.test/", "allow: [x\n").where == "policy.yaml:2:1"
