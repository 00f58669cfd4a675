from agent_sandbox.engines.compose.checks.version import Version, is_distributions, parse, shown
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
def test_parses_the_first_three_numbers_of_a_version(text: str, version: Version) -> None:
    assert parse(text) == version


def test_shows_a_version_with_dots_between_its_numbers() -> None:
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
def test_recognises_the_build_of_a_distribution_by_the_version_suffix(text: str, *, expected: bool) -> None:
    assert is_distributions(text) is expected
