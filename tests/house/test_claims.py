"""Each claim about security names existing tests."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MODEL, SECURITY = ROOT / "docs" / "threat-model.md", ROOT / "SECURITY.md"
SHOWN: dict[str, list[str]] = yaml.safe_load((ROOT / "tests" / "attack" / "claims.yaml").read_text("utf-8"))
DEFINED = Counter(
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
)
# A row of the threat model: its id, the attempt, and what stops the attempt.
CLAIM = re.compile(r"- \*\*([NPCWHF]\d+)\.\*\* \*[^*]+\*: \S.*")
PROMISE = re.compile(r"^- \*\*(S\d+)\.\*\* ", re.MULTILINE)


def rows(text: str) -> list[str]:
    """Return the items of the lists in `text`."""
    return [line for line in text.splitlines() if line.startswith("- ")]


def claims() -> list[str]:
    """Return the rows of the section "The walls"."""
    text = MODEL.read_text("utf-8")
    return rows(text[text.index("## The walls") : text.index("## What is not stopped")])


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that no test or several tests have: one of several could be removed unnoticed."""
    return sorted(name for name in set(names) if DEFINED[name] != 1)


def test_every_claim_and_every_promise_names_tests_that_exist_exactly_once() -> None:
    found = claims()
    assert len(found) > 50
    assert [row for row in found if not CLAIM.fullmatch(row)] == []
    ids = [match[1] for row in found if (match := CLAIM.fullmatch(row))]
    promises = PROMISE.findall(SECURITY.read_text("utf-8"))
    assert promises == [f"S{number}" for number in range(1, 7)]
    assert sorted(SHOWN) == sorted([*ids, *promises])
    assert [claim for claim, tests in SHOWN.items() if not tests] == []
    assert unknown(test for tests in SHOWN.values() for test in tests) == []


@pytest.mark.parametrize(
    "row",
    [
        "- *a hole*: a wall",
        "- **.** *a hole*: a wall",
        "- **X1.** *a hole*: a wall",
        "- **N1.** *a hole*",
        "- **N1.** a: b",
    ],
)
def test_detects_a_row_without_an_id_or_a_part(row: str) -> None:
    assert rows(row) == [row]
    assert not CLAIM.fullmatch(row)


def test_detects_a_name_of_a_test_that_does_not_exist() -> None:
    name = "test_every_claim_and_every_promise_names_tests_that_exist_exactly_once"
    assert unknown([name, f"{name}s"]) == [f"{name}s"]
