"""Each claim about security names tests, and they are there: a name that is misspelt or whose test is gone is found."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
MODEL, SECURITY = ROOT / "docs" / "threat-model.md", ROOT / "SECURITY.md"
DEFINED = Counter(
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
)
# The last cell of a row of the walls: tests by name, and not a word beside them.
ROW = re.compile(r"^\| (?!what is tried|what fails|---)(.*) \| ([^|]*) \|$", re.MULTILINE)
NAMES = re.compile(r"`test_\w+`(?:, `test_\w+`)*")
PROMISE = re.compile(r"^\d\. (?:.|\n   )*", re.MULTILINE)


def unknown(names: Iterable[str]) -> list[str]:
    """Return what is no test, or more than one: of two with a name, either could go without being missed."""
    return sorted(name for name in set(names) if DEFINED[name] != 1)


@pytest.mark.parametrize("page", [MODEL, SECURITY], ids=lambda page: page.name)
def test_every_test_that_a_page_names_is_there_and_is_one(page: Path) -> None:
    named = re.findall(r"`(test_\w+)`", page.read_text("utf-8"))
    assert named
    assert unknown(named) == []


def test_every_wall_of_the_threat_model_names_tests_and_nothing_else() -> None:
    text = MODEL.read_text("utf-8")
    walls = text[text.index("## The walls") : text.index("## What is not stopped")]
    rows = ROW.findall(walls)
    assert len(rows) > 50
    assert [row for row, shown in rows if not NAMES.fullmatch(shown)] == []


def test_every_promise_of_the_security_page_names_a_test() -> None:
    promises = PROMISE.findall(SECURITY.read_text("utf-8"))
    assert len(promises) == 6
    assert [promise for promise in promises if "`test_" not in promise] == []


@pytest.mark.parametrize("shown", ["", "`tst_x`", "test_x", "`test_x` and more", "`test_x`, `walls`", "[`test_x`](x)"])
def test_a_cell_that_names_no_test_is_noticed(shown: str) -> None:
    assert not NAMES.fullmatch(shown)


def test_a_name_that_is_misspelt_or_gone_is_noticed() -> None:
    name = "test_every_promise_of_the_security_page_names_a_test"
    assert unknown([name, f"{name}s"]) == [f"{name}s"]
