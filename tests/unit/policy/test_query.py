import pytest

from agent_sandbox.policy.query import parameters_of, query_pattern

PATTERN = query_pattern({"ref": ["main"], "q": ["a b", "é"]})


@pytest.mark.parametrize(
    ("query", "answers"),
    [
        ("ref=main&q=a+b&q=%c3%a9", (True, True)),
        ("q=%C3%A9&%72ef=main&q=a%20b", (True, True)),
        ("ref=main&q=a+b&q=%c3%a9&x=1", (False, True)),
        ("ref=main&q=a+b&q=%c3%a9&", (False, True)),
        ("ref=main&ref=main&q=a+b&q=%c3%a9", (False, True)),
        ("ref=main&q=a+b", (False, False)),
        ("ref=Main&q=a+b&q=%c3%a9", (False, False)),
        ("", (False, False)),
    ],
)
def test_an_allow_wants_these_and_no_others_a_deny_wants_them_among_others(
    query: str, answers: tuple[bool, bool]
) -> None:
    assert (PATTERN.is_all_of(query), PATTERN.is_within(query)) == answers


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", []),
        ("flag", [("flag", "")]),
        ("a=1&&b==", [("a", "1"), ("", ""), ("b", "=")]),
        ("a=%zz%", [("a", "%zz%")]),
        ("a=%ff", [("a", "\udcff")]),
    ],
)
def test_no_part_of_a_query_goes_unseen(query: str, expected: list[tuple[str, str]]) -> None:
    assert parameters_of(query) == expected


def test_a_pattern_with_no_parameters_takes_the_empty_query_alone() -> None:
    nothing = query_pattern({})
    assert (nothing.is_all_of(""), nothing.is_all_of("x")) == (True, False)


def test_a_pattern_reads_like_a_query() -> None:
    assert str(query_pattern({"b": ["2"], "a": ["1\n", "\udcff"]})) == "a=1%0A&a=%FF&b=2"
