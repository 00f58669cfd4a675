from typing import Any

import pytest

from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.http.graphql_operation import operation_pattern
from agent_sandbox.policy.http.headers import header_pattern
from agent_sandbox.policy.http.query import query_pattern
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.injection import Credential, injection
from agent_sandbox.policy.match.mcp_pattern import mcp_pattern
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, PathPattern, parse_path_pattern
from table_tests import each

ANY = parse_host_pattern("a.test")
ALL = Conditions(host=ANY)
KEY_A, KEY_B = (injection([Credential(header="x-key", secret=name)]) for name in ("a", "b"))


@each(
    ("wide", "narrow", "expected"),
    [
        ("a.test", "a.test", True),
        ("a.test", "b.test", False),
        ("a.test", "*.a.test", False),
        ("*.a.test", "b.a.test", True),
        ("*.a.test", "a.test", False),
        ("*.a.test", "*.b.a.test", True),
        ("*.a.test", ".b.a.test", True),
        ("*.a.test", ".a.test", False),
        (".a.test", "*.a.test", True),
        (".a.test", ".a.test", True),
        (".b.a.test", ".a.test", False),
        (".a.test", "*.ba.test", False),
        ("*", "*.a.test", True),
        ("*", "a.test", True),
        ("*", "*", True),
        ("*", ".a.test", True),
        ("*", "203.0.113.7", False),
        ("*.a.test", "*", False),
    ],
)
def test_a_wider_host_covers_a_narrower_host(wide: str, narrow: str, *, expected: bool) -> None:
    first, second = (Conditions(host=parse_host_pattern(text)) for text in (wide, narrow))
    assert covers(first, second) is expected


def path(text: str) -> PathPattern:
    kind, _, pattern = text.partition(" ")
    return parse_path_pattern(PathKind(kind), pattern)


@each(
    ("wide", "narrow", "expected"),
    [
        ("exact /a", "exact /a", True),
        ("exact /a", "prefix /a", False),
        ("exact /a", "glob /a", False),  # the same path, but `covers` cannot prove it
        ("prefix /a", "exact /a/b", True),
        ("prefix /a", "exact /ab", False),
        ("prefix /a", "prefix /a/", True),
        ("prefix /a/", "prefix /a", False),
        ("prefix /a", "glob /a/**/b", True),
        ("prefix /a", "glob /a*/b", False),
        ("glob /**", "prefix /", True),
        ("glob /a/**", "prefix /a", False),
        ("glob /a/**", "prefix /a/", True),
        ("glob /*/b", "glob /a*/b", True),
        ("glob /a*c/b", "glob /ab*c/b", True),
        ("glob /a*c/b", "glob /a*/b", False),
        ("glob /*", "glob /**", False),
        ("glob /**", "glob /*", True),
        ("glob /**/b", "glob /a/*/b", True),
        ("glob /**/b", "glob /a/**/b", True),
        ("glob /a/**/b", "glob /**/b", False),
        ("glob /a/*", "glob /a/*/b", False),
        ("glob /a", "glob /b", False),
        ("glob /a*", "glob /*", False),
    ],
)
def test_a_wider_path_covers_a_narrower_path(wide: str, narrow: str, *, expected: bool) -> None:
    first, second = (Conditions(host=ANY, path=path(text)) for text in (wide, narrow))
    assert covers(first, second) is expected


@pytest.mark.parametrize("text", ["exact /a", "prefix /", "glob /**"])
def test_a_rule_without_a_path_covers_every_path(text: str) -> None:
    asked = Conditions(host=ANY, path=path(text))
    assert (covers(ALL, asked), covers(asked, ALL)) == (True, not text.startswith("exact"))


NARROWER = [
    Conditions(host=ANY, ports=frozenset({443})),
    Conditions(host=ANY, schemes=frozenset({"https"})),
    Conditions(host=ANY, methods=frozenset({"GET"})),
    Conditions(host=ANY, query=query_pattern({"a": ["b"]})),
    Conditions(host=ANY, headers=header_pattern({"x-a": "b"})),
    Conditions(host=ANY, max_body=5),
    Conditions(host=ANY, graphql=operation_pattern({"query": ["a"]})),
    Conditions(host=ANY, mcp=mcp_pattern(["a"], [])),
    Conditions(host=ANY, inject=KEY_A),
]


@each("narrower", NARROWER)
def test_a_rule_with_an_additional_condition_is_narrower(narrower: Conditions) -> None:
    assert (covers(ALL, narrower), covers(narrower, ALL), covers(narrower, narrower)) == (True, False, True)


@each(
    ("wide", "narrow", "expected"),
    [
        ({"ports": frozenset({80, 443})}, {"ports": frozenset({443})}, (True, False)),
        ({"max_body": 6}, {"max_body": 5}, (True, False)),
        (
            {"headers": header_pattern({"x-a": "b"})},
            {"headers": header_pattern({"x-a": "b", "x-b": "c"})},
            (True, False),
        ),
        ({"schemes": frozenset({"http", "https"})}, {}, (True, True)),
        ({"query": query_pattern({"a": ["1"]})}, {"query": query_pattern({"a": ["1"], "b": ["2"]})}, (False, False)),
        (
            {"graphql": operation_pattern({"query": ["a", "b"], "mutation": ["c"]})},
            {"graphql": operation_pattern({"query": ["b"]})},
            (True, False),
        ),
        ({"mcp": mcp_pattern(["read_*"], [])}, {"mcp": mcp_pattern(["read_a"], [])}, (True, False)),
        ({"inject": KEY_A}, {"inject": KEY_B}, (False, False)),
        ({"encoded_slash": True}, {}, (True, False)),
    ],
)
def test_compares_the_values_of_a_condition(
    wide: dict[str, Any], narrow: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    first, second = (Conditions(host=ANY, **values) for values in (wide, narrow))
    assert (covers(first, second), covers(second, first)) == expected


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        (("prefix /r/o", (3, 4)), ("exact /r/o/x", (3, 4)), True),
        (("prefix /r/o", (3, 4)), ("exact /r/o/x", None), True),
        (("prefix /r/o", None), ("exact /r/o/x", (3, 4)), False),
        (("prefix /", None), ("exact /r/o/x", (3, 4)), True),
        (("prefix /R", WHOLE), ("exact /r/o/x", (3, 4)), True),
        (("prefix /r", WHOLE), ("prefix /R/O", WHOLE), True),
        (("prefix /r", None), ("prefix /r/o", WHOLE), False),
    ],
)
def test_a_case_sensitive_path_does_not_cover_a_case_insensitive_path(
    wide: tuple[str, tuple[int, int] | None], narrow: tuple[str, tuple[int, int] | None], *, expected: bool
) -> None:
    first, second = (
        Conditions(host=ANY, path=parse_path_pattern(PathKind(text.split()[0]), text.split()[1], any_case=part))
        for text, part in (wide, narrow)
    )
    assert covers(first, second) is expected
