from collections.abc import Iterator
from typing import Any

import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match import glob as subject
from agent_sandbox.policy.match.glob import glob_follows, glob_matches, globs_meet, split_glob
from table_tests import each


@each(
    ("glob", "path", "expected"),
    [
        ("/a/*/c", "/a/b/c", "yes"),
        ("/a/*/c", "/a//c", "no"),
        ("/a/*/c", "/a/b/b/c", "no"),
        ("/a*z", "/az", "yes"),
        ("/a*a", "/a", "no"),
        ("/a*b*c", "/a-b-b-c", "yes"),
        ("/a*b*c", "/a-c", "no"),
        ("/a/**", "/a/b/c", "yes"),
        ("/a/**", "/a", "no"),
        ("/a/**/z", "/a/z", "yes"),
        ("/a/**/z", "/a/b/c/z", "yes"),
        ("/a/**/z", "/a/z/b", "no"),
        ("/a/**/y/z", "/a/b/z", "no"),
        ("/a/b", "/a/b/c", "no"),
        ("/a/b/**/z", "/a", "no"),
        ("/a/**/b/**", "/a/x/b/y", "yes"),
        ("/a/**/b/**", "/a/x/b", "no"),
        ("/a/**/b/**", "/a/x/c/y", "no"),
        ("/a/**/b*/c*/**/z", "/a/b1/x/b2/c2/z", "yes"),
        ("/a/**/b*/c*/**/z", "/a/b1/x/c2/y/z", "no"),
        ("/a/**/b/**/b/z", "/a/b/z", "no"),
        ("/a/**/b/**/b/z", "/a/b/b/z", "yes"),
        ("/a/**/**", "/a", "no"),
        ("/a/**/**", "/a/b", "yes"),
        ("/a/**/**/b", "/a/b", "yes"),
        ("/**/a/**/b/**", "/b/a/x", "no"),
        ("/a%2Ab/*", "/a*b/c", "yes"),
        ("/a%2Ab/*", "/axb/c", "no"),
    ],
)
def test_a_star_matches_within_a_segment_and_two_stars_across_segments(glob: str, path: str, expected: str) -> None:
    assert glob_matches(split_glob(glob), path) == (expected == "yes")


@each(
    ("glob", "path", "expected"),
    [
        ("/a/*/c", "/x", 1),
        ("/a/*/c", "/a/b/d", 3),
        ("/a/*/c", "/a", 2),
        ("/a/**/c", "/a/b/d", 4),
        ("/a/b", "/a/b/c", 3),
        ("/a/**", "/a/b/c", 4),
    ],
)
def test_reports_how_far_a_glob_follows_a_path(glob: str, path: str, expected: int) -> None:
    assert glob_follows(split_glob(glob), path) == expected


@each(
    ("glob", "what"),
    [
        ("/a**", "`**` has to be a whole segment"),
        ("/**a", "`**` has to be a whole segment"),
        ("/***", "`**` has to be a whole segment"),
        ("/*" * 9, "more than 8 stars in a path"),
        ("/a" * 32, "more than 32 segments in a glob"),
    ],
)
def test_rejects_an_invalid_glob_with_its_reason(glob: str, what: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        split_glob(glob)
    assert invalid.value.what == what


@pytest.mark.parametrize("text", ["/*a*a*a*a*a*a*a*b", "/**/a/a/a/a/**/a/a/a/a/a/a/**/a/a/a/a/b"])
@pytest.mark.parametrize("path", ["/" + "a" * 32000, "/a" * 16000])
def test_matching_a_long_path_takes_linear_time(text: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    after = subject._after

    def counted(*told: Any) -> Iterator[int]:  # noqa: ANN401 - as the function takes it
        steps.append(1)
        return after(*told)

    monkeypatch.setattr(subject, "_after", counted)
    glob = split_glob(text)
    assert not glob_matches(glob, path)
    # Each part of the glob is compared at most twice with each segment.
    assert len(steps) <= 2 * len(glob) * len(path.split("/"))


@each(
    ("one", "other", "expected"),
    [
        ("/a/*", "/a/*", True),
        ("/a/*", "/b/*", False),
        ("/a/*", "/*/b", True),
        ("/a/*", "/a/*/c", False),
        ("/a/**", "/*/b/c", True),
        ("/a/**/z", "/a/z", True),
        ("/a/**/z", "/**/y", False),
        ("/**", "/x/**", True),
        ("/a*", "/*b", True),
        ("/a*", "/b*", False),
        ("/*a", "/*b", False),
        ("/a*c", "/a*d", False),
        ("/ab", "/a*", True),
        ("/a*", "/cb", False),
    ],
)
def test_two_globs_overlap_if_a_path_could_match_both(one: str, other: str, *, expected: bool) -> None:
    ways = [(split_glob(mine), split_glob(theirs)) for mine, theirs in ((one, other), (other, one))]
    assert [globs_meet(mine, theirs) for mine, theirs in ways] == [expected, expected]
