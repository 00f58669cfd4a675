from pathlib import Path
from typing import Any

import yaml

from agent_sandbox.policy.http.query import has_parameter, other_method, parameters_of, query_pattern, without_values
from table_tests import each

PATTERN = query_pattern({"ref": ["main"], "q": ["a b", "é"]})


@each(
    ("query", "answers"),
    [
        ("ref=main&q=a+b&q=%c3%a9", (True, True)),
        ("q=%C3%A9&%72ef=main&q=a%20b", (True, True)),
        ("ref=main&q=a+b&q=%c3%a9&x=1", (False, True)),
        ("ref=main&q=a+b&q=%c3%a9&", (False, True)),
        ("ref=main&ref=main&q=a+b&q=%c3%a9", (False, True)),
        ("ref=main&q=a+b", (False, False)),
        ("ref=Main&q=a+b&q=%c3%a9", (False, True)),
        ("x=1;REF=main;q=a+b%20&q=%c3%89", (False, True)),
        ("ref=mainly&q=a+b&q=%c3%a9", (False, False)),
        ("", (False, False)),
    ],
)
def test_an_allow_needs_exactly_the_parameters_and_a_deny_finds_them_among_others(
    query: str, answers: tuple[bool, bool]
) -> None:
    assert (PATTERN.is_all_of(query), PATTERN.is_within(query)) == answers


@each(
    ("query", "expected"),
    [
        ("dry_run=a+b", True),
        ("dry_run=a%2Bb", True),
        ("dry.run=a+b", True),
        ("+dry%20run=a%2Bb", True),
        ("dry[run=a+b", True),
        ("dry_run[]=a+b", True),
        ("dry.run%5B0%5D=a%2Bb", True),
        ("dry_run=a%20b", False),
        ("dryrun=a+b", False),
        ("dry-run=a+b", False),
    ],
)
def test_a_deny_finds_a_parameter_as_any_server_reads_it(query: str, expected: bool) -> None:  # noqa: FBT001 - a column
    assert query_pattern({"dry_run": ["a+b"]}).is_within(query) is expected


@each(
    ("query", "expected"),
    [
        ("", []),
        ("flag", [("flag", "")]),
        ("a=1&&b==", [("a", "1"), ("", ""), ("b", "=")]),
        ("a=%zz%", [("a", "%zz%")]),
        ("a=%ff", [("a", "\udcff")]),
    ],
)
def test_parses_every_part_of_a_query(query: str, expected: list[tuple[str, str]]) -> None:
    assert parameters_of(query) == expected


def test_an_allow_without_parameters_matches_only_the_empty_query() -> None:
    nothing = query_pattern({})
    assert (nothing.is_all_of(""), nothing.is_all_of("x")) == (True, False)


def test_shows_a_pattern_as_a_query() -> None:
    assert str(query_pattern({"b": ["2"], "a": ["1\n", "\udcff"]})) == "a=1%0A&a=%FF&b=2"


VECTORS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "vectors/queries.yaml").read_text("utf-8"))
ANSWERS = {"both": (True, True), "deny": (False, True), "neither": (False, False)}


@each("vector", VECTORS)
def test_matches_exactly_the_queries_in_the_vectors(vector: dict[str, Any]) -> None:
    listed = {name: [value] if isinstance(value, str) else value for name, value in vector["exact"].items()}
    pattern = query_pattern(listed)
    asked = [(query, ANSWERS[key]) for key in ANSWERS for query in vector[key]]
    assert [(query, (pattern.is_all_of(query), pattern.is_within(query))) for query, _ in asked] == asked


@each(
    ("query", "method", "named"),
    [
        ("_method=DELETE", "GET", "DELETE"),
        ("%24httpMethod=DELETE", "POST", "DELETE"),
        ("a=1;_METHOD=delete", "POST", "DELETE"),
        ("%5Fmeth%6Fd=%44ELETE", "GET", "DELETE"),
        (".method=PUT", "POST", "PUT"),
        ("[method=PUT", "POST", "PUT"),
        ("%00_method=+patch%20", "POST", "PATCH"),
        ("x-http-method-override=PUT", "POST", "PUT"),
        ("X_HTTP_Method=PUT", "POST", "PUT"),
        ("_method=GET&_method=PUT", "GET", "PUT"),
        ("_method=GET", "GET", ""),
        ("_method=card", "POST", ""),
        ("payment_method=PUT", "POST", ""),
        ("method=PUT", "POST", ""),
        ("q=_method%3DPUT", "POST", ""),
        ("a=%20", "POST", ""),
        ("a=1", "POST", ""),
    ],
)
def test_finds_a_method_override_in_a_query_in_any_spelling(query: str, method: str, named: str) -> None:
    assert other_method(query, method) == named


@each(
    ("query", "shown"),
    [("ref=main&x", "ref=...&..."), ("a=b=c", "a=..."), ("", "..."), ("a=&b", "a=...&..."), ("a%3Db", "...")],
)
def test_shows_a_query_without_values(query: str, shown: str) -> None:
    assert without_values(query) == shown


@each(
    ("query", "found"),
    [
        ("", False),
        ("key=1", True),
        ("a=1&key", True),
        ("a=1;KEY=2", True),
        ("%6bey=1", True),
        ("key[]=1", True),
        ("key[a][b]=1", True),
        ("key%5Ba%5D%5B%5D=1", True),
        ("+key=1", True),
        ("a=key", False),
        ("keys=1", False),
    ],
)
def test_finds_a_parameter_in_any_spelling_that_a_server_accepts(query: str, *, found: bool) -> None:
    assert has_parameter(query, "key") is found
