from agent_sandbox.policy.match.host_set import host_set
from table_tests import each

NAMES = [f"h{number}.test" for number in range(100)]


def test_contains_only_whole_names() -> None:
    names = host_set(NAMES, about=100)
    assert all(name in names for name in NAMES)
    others = ("h1", "test", "h1.tes", "1.test", "xh1.test", "", "h1.test.")
    assert [name for name in others if name in names] == []


@each("about", [0, 1, 15, 16, 1000])
def test_contains_every_name_for_any_size_estimate(about: int) -> None:
    assert all(name in host_set(NAMES, about=about) for name in NAMES)


def test_an_empty_set_contains_nothing() -> None:
    assert [host for host in ("", "a.test", "\n") if host in host_set([], about=0)] == []


def test_len_returns_the_number_of_names() -> None:
    assert (len(host_set(NAMES, about=10)), len(host_set([], about=0))) == (100, 0)


@each(
    ("described", "expected"),
    [
        ("h7.test", "h7.test"),
        ("h.test", ""),
        ("s3.*.a.test", "s3.eu.a.test"),
        ("s3-*.a.test", "s3-us.a.test"),
        ("*.a.test", "s3-us.a.test"),
        ("*.eu.a.test", "s3.eu.a.test"),
        ("s4.*.a.test", ""),
        ("s3.*.test", ""),
    ],
)
def test_finds_a_name_by_a_pattern_with_a_star(described: str, expected: str) -> None:
    names = host_set([*NAMES, "s3.eu.a.test", "s3-us.a.test.x", "x.s3-us.a.test", "s3-us.a.test"], about=100)
    assert names.like(described) == expected


@each(("ending", "expected"), [(".a.test", True), (".eu.a.test", True), ("eu.a.test", True), (".us.a.test", False)])
def test_reports_whether_any_name_has_a_suffix(ending: str, expected: bool) -> None:  # noqa: FBT001 - a case
    assert host_set([*NAMES, "s3.eu.a.test", "x.us.a.test.x"], about=100).any_ends_in(ending) is expected
