from agent_sandbox.runtime.compose.checks.version import Version, is_distributions, parse, shown
from table_tests import each


@each(
    ("text", "version"),
    [
        ("v2.26.1-4", (2, 26, 1)),
        ("26.1.5+dfsg1", (26, 1, 5)),
        ("Docker Desktop 4.44.3 (202357)", (4, 44, 3)),
        ("1.7", (1, 7, 0)),
        ("", ()),
        ("unknown", ()),
    ],
)
def test_a_version_is_its_first_three_numbers(text: str, version: Version) -> None:
    assert parse(text) == version


def test_a_version_is_shown_as_it_is_written() -> None:
    assert shown((1, 2, 3)) == "1.2.3"


@each(
    ("text", "expected"),
    [
        ("1.1.5+ds1", True),
        ("26.1.5+dfsg1", True),
        ("1.7.24~ds1-6+deb13u1", True),
        ("24.0.7-0ubuntu4", True),
        ("2.26.1-4", True),
        ("1.1.12", False),
        ("v1.7.29", False),
        ("28.0.0-rc.1", False),
    ],
)
def test_a_distributions_own_build_is_known_by_its_tail(text: str, *, expected: bool) -> None:
    assert is_distributions(text) is expected
