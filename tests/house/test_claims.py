"""Each claim about security names existing tests."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL, TESTS = ROOT / "docs" / "threat-model.md", ROOT / "docs" / "threat-model-tests.md"
SECURITY = ROOT / "SECURITY.md"
DEFINED = Counter(
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
)
HEADER = re.compile(r"\| (?:id|---) \|")
# A row of the threat model: its id, the attempt, and what stops the attempt.
CLAIM = re.compile(r"\| ([NPCWHF]\d+) \| (?:[^|]+) \| (?:[^|]+) \|")
# A row of the tests: the id, then only names of tests.
SHOWN = re.compile(r"\| ([NPCWHFS]\d+) \| (`test_\w+`(?:, `test_\w+`)*) \|")
PROMISE = re.compile(r"^- \*\*(S\d+)\.\*\* ", re.MULTILINE)


def rows(text: str) -> list[str]:
    """Return the rows of the tables in `text`, without their headers."""
    return [line for line in text.splitlines() if line.startswith("|") and not HEADER.match(line)]


def claims() -> list[str]:
    """Return the rows of the section "The walls"."""
    text = MODEL.read_text("utf-8")
    return rows(text[text.index("## The walls") : text.index("## What is not stopped")])


def named(shown: Iterable[str]) -> list[str]:
    """Return the ids of the rows that name at least one test."""
    return [match[1] for row in shown if (match := SHOWN.fullmatch(row))]


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that no test or several tests have: one of several could be removed unnoticed."""
    return sorted(name for name in set(names) if DEFINED[name] != 1)


@pytest.mark.parametrize("page", [MODEL, TESTS, SECURITY], ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists_exactly_once(page: Path) -> None:
    assert unknown(re.findall(r"\b(test_\w+)`", page.read_text("utf-8"))) == []


def test_every_claim_of_the_threat_model_names_only_tests() -> None:
    found = claims()
    assert len(found) > 50
    assert [row for row in found if not CLAIM.fullmatch(row)] == []
    shown = rows(TESTS.read_text("utf-8"))
    assert [row for row in shown if not SHOWN.fullmatch(row)] == []
    ids = [match[1] for row in found if (match := CLAIM.fullmatch(row))]
    ids += PROMISE.findall(SECURITY.read_text("utf-8"))
    assert len(ids) == len(set(ids))
    assert sorted(named(shown)) == sorted(ids)


def test_every_promise_of_the_security_page_names_a_test() -> None:
    promises = PROMISE.findall(SECURITY.read_text("utf-8"))
    assert promises == [f"S{number}" for number in range(1, 7)]
    assert set(promises) <= {*named(rows(TESTS.read_text("utf-8")))}


@pytest.mark.parametrize("shown", ["", "`tst_x`", "test_x", "`test_x` and more", "`test_x`, `walls`", "[`test_x`](x)"])
def test_detects_a_cell_that_names_no_test(shown: str) -> None:
    assert not SHOWN.fullmatch(f"| N1 | {shown} |")


@pytest.mark.parametrize(
    "row", ["| a hole | a wall |", "|  | a hole | a wall |", "| X1 | a hole | a wall |", "| N1 | a hole |"]
)
def test_detects_a_row_without_an_id_or_a_cell(row: str) -> None:
    assert rows(row) == [row]
    assert not CLAIM.fullmatch(row)


def test_detects_a_name_of_a_test_that_does_not_exist() -> None:
    name = "test_every_promise_of_the_security_page_names_a_test"
    assert unknown([name, f"{name}s"]) == [f"{name}s"]
