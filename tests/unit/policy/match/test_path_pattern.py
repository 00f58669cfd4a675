from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, PathPattern, parse_path_pattern
from table_tests import each

VECTORS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "vectors/path_patterns.yaml").read_text("utf-8")
)


def the_pattern(vector: dict[str, Any]) -> PathPattern:
    kind = next(kind for kind in PathKind if kind in vector)
    return parse_path_pattern(kind, vector[kind])


@each("vector", VECTORS)
def test_matches_exactly_the_paths_in_the_vectors(vector: dict[str, Any]) -> None:
    pattern = the_pattern(vector)
    paths = [*vector["takes"], *vector["leaves"]]
    assert [path for path in paths if pattern.matches(readings(path)[0])] == vector["takes"]


@each(
    ("kind", "text", "what"),
    [
        (PathKind.EXACT, "x", "the path does not start with `/`: 'x'"),
        (PathKind.PREFIX, "/a/../b", "the path contains a dot segment: '/a/../b'"),
        (
            PathKind.PREFIX,
            "/a%2fb",
            "the path contains an encoded slash, which an entry allows with `encoded_slash: true`: '/a%2fb'",
        ),
        (PathKind.EXACT, "/a?b=c", "'/a?b=c' has a query"),
        (PathKind.EXACT, "/a;b", "'/a;b' has a `;`"),
        (PathKind.EXACT, "/a%3Bb", "'/a%3Bb' has a `;`"),
        (PathKind.EXACT, "/" + "a" * 1024, "a path with more than 1024 characters"),
        (PathKind.GLOB, "/a**", "`**` has to be a whole segment"),
        (PathKind.PREFIX, "/a/*", "a `*` is not a wildcard in prefix: '/a/*'"),
        (PathKind.EXACT, "/a/**", "a `*` is not a wildcard in exact: '/a/**'"),
    ],
)
def test_rejects_an_invalid_pattern_with_its_reason(kind: PathKind, text: str, what: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        parse_path_pattern(kind, text)
    assert invalid.value.what == what


def test_shows_a_prefix_with_an_ellipsis() -> None:
    texts = [(PathKind.EXACT, "/a"), (PathKind.PREFIX, "/a"), (PathKind.PREFIX, "/a/"), (PathKind.GLOB, "/a/*")]
    patterns = [str(parse_path_pattern(kind, text)) for kind, text in texts]
    assert patterns == ["/a", "/a/...", "/a/...", "/a/*"]


def test_ranks_exact_paths_above_long_prefixes_above_short_prefixes() -> None:
    texts = [(PathKind.PREFIX, "/a"), (PathKind.EXACT, "/a"), (PathKind.PREFIX, "/a/b")]
    ranked = sorted((parse_path_pattern(kind, text) for kind, text in texts), key=lambda pattern: pattern.specificity)
    assert [(pattern.kind, pattern.text) for pattern in ranked] == [
        (PathKind.PREFIX, "/a"),
        (PathKind.PREFIX, "/a/b"),
        (PathKind.EXACT, "/a"),
    ]


@pytest.mark.parametrize(("kind", "text"), [("exact", "/r/Own/x"), ("prefix", "/r/Own"), ("glob", "/r/Own/*")])
def test_matches_a_part_of_a_path_in_any_case(kind: str, text: str) -> None:
    pattern = parse_path_pattern(PathKind(kind), text, any_case=(3, 6))
    readings = ("/r/own/x", "/r/OWN/x", "/R/own/x")
    assert [reading for reading in readings if pattern.matches(reading)] == ["/r/own/x", "/r/OWN/x"]


@each(
    ("kind", "text", "reading"),
    [
        ("exact", "/Admin/%C3%A9", "/aDMIN/%C3%A9"),
        ("prefix", "/Admin", "/ADMIN/x"),
        ("glob", "/A*n/**", "/ADMIN/x"),
        ("exact", "/%C3%A9", "/%C3%89"),
        ("prefix", "/%C3%89T%C3%A9", "/%c3%a9t%c3%89/x"),
        ("glob", "/x%C3*", "/X%C3%89"),
        ("prefix", "/", "/X"),
    ],
)
def test_matches_a_whole_path_in_any_case(kind: str, text: str, reading: str) -> None:
    pattern = parse_path_pattern(PathKind(kind), text, any_case=WHOLE)
    assert pattern == parse_path_pattern(PathKind(kind), text).in_any_case()
    assert pattern.matches(readings(reading)[0])
    assert not pattern.matches(f"x{reading}")
    assert pattern.text == text
