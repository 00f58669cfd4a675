from itertools import permutations

import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_list import MAX_INVALID, Unlisted, host_set, parse_file_name, parse_host_list
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from table_tests import each

LIST = """\
# a comment
a.test   # after a host, too
\tB.Test.
  \t
bücher.example
*.wild.test
.both.test\r
203.0.113.7

x_y-z.test"""
NAMES = [f"h{number}.test" for number in range(100)]


@each(
    ("host", "expected"),
    [
        ("a.test", True),
        ("b.test", True),
        ("xn--bcher-kva.example", True),
        ("a.b.wild.test", True),
        ("wild.test", False),
        ("both.test", True),
        ("x.both.test", True),
        ("203.0.113.7", True),
        ("x_y-z.test", True),
        ("x.a.test", False),
        ("after", False),
        ("comment", False),
    ],
)
def test_parses_each_line_as_a_host_pattern(host: str, *, expected: bool) -> None:
    listed, invalid = parse_host_list(LIST, name="hosts.txt")
    assert (listed.matches(host), invalid) == (expected, [])


def test_identifies_a_list_by_file_name_and_content_hash() -> None:
    one, again, other = (parse_host_list(text, name="hosts.txt")[0] for text in ("a.test", "a.test", "b.test"))
    assert str(one) == "hosts.txt (sha256 52dcf5eeb77a59de2eb7221158d2316a1fce8c55c61ee02f63f378d048feed6c)"
    assert one == again != other
    assert not one.matches("b.test")


def test_reports_each_line_that_cannot_be_allowed_with_its_number() -> None:
    _, invalid = parse_host_list(
        "a.test\n*.com\n\nhttps://x.test/\n10.0.0.1\n-a.test\nlocalhost\ndb.internal\n", name="hosts.txt"
    )
    assert [(one.line, one.what) for one in invalid] == [
        (2, "`*.com` matches every name that anyone registers below `com`"),
        (4, "'https://x.test/' is a URL, not a host"),
        (5, "10.0.0.1 is not a public address (private)"),
        (6, "not a host name: '-a.test'"),
        (7, "localhost can only be a private host"),
        (8, "db.internal can only be a private host"),
    ]
    assert isinstance(invalid[0], Unlisted)


@each("line", ["a" * 64 + ".test", ".".join(["a" * 50] * 6), "xn--a.test", "a.xn--a", "a-.test", "1.2"])
def test_rejects_hosts_that_only_look_plain(line: str) -> None:
    assert len(parse_host_list(line, name="x")[1]) == 1


def test_stops_reading_after_the_maximum_of_invalid_lines() -> None:
    _, invalid = parse_host_list("*\n" * 10 * MAX_INVALID, name="x")
    assert [one.line for one in invalid] == list(range(1, MAX_INVALID + 1))


@each("name", ["../hosts.txt", "/etc/hosts", "a/b", "", ".hosts", "a\n", "x" * 101])
def test_rejects_a_file_outside_the_directory_of_the_policy(name: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_file_name(name)
    assert caught.value.what == "the host list has to be in the directory of the policy file"
    assert parse_file_name("hosts-1.txt") == "hosts-1.txt"


def test_a_list_has_its_file_name() -> None:
    listed, _ = parse_host_list("a.test", name="long-hosts.txt")
    assert listed.file == "long-hosts.txt"


@each(
    ("dropped", "left"),
    [
        ("a.test", ["b.test", "x.b.test", "x.c.test"]),
        (".b.test", ["a.test", "x.c.test"]),
        ("*.b.test", ["a.test", "b.test", "x.c.test"]),
        ("*.c.test", ["a.test", "b.test", "x.b.test"]),
        # A wildcard also removes the patterns below it.
        ("*.test", []),
        ("*", []),
    ],
)
def test_without_removes_hosts_that_the_pattern_contains(dropped: str, left: list[str]) -> None:
    listed, _ = parse_host_list("a.test\n.b.test\n*.c.test", name="hosts.txt")
    less = listed.without([parse_host_pattern(dropped)])
    hosts = ("a.test", "b.test", "x.b.test", "x.c.test", "d.test")
    assert [host for host in hosts if less.matches(host)] == left
    assert str(less) == f"{listed} without {dropped}"
    assert less.without([parse_host_pattern(dropped)]) is less


@pytest.mark.parametrize("other", ["*.a.test", "x.b.test", "c.test", "d.test", ".d.test"])
def test_without_ignores_patterns_that_contain_no_listed_host(other: str) -> None:
    listed, _ = parse_host_list("a.test\n.b.test\n*.c.test", name="hosts.txt")
    assert listed.without([parse_host_pattern(other)]) is listed


def test_without_in_two_steps_equals_without_in_one_step() -> None:
    listed, _ = parse_host_list("a.test\nb.test\nc.test", name="hosts.txt")
    for first, second in permutations(map(parse_host_pattern, ("a.test", "b.test", "*.test", ".test", "*")), 2):
        assert listed.without([second]).without([first]) == listed.without([first, second])


def test_contains_only_whole_names() -> None:
    names = host_set(NAMES, about=100)
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
