"""Each claim about security names a test, and that test is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "docs" / "threat-model.md", ROOT / "SECURITY.md")
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE)
}
ROW = re.compile(r"^\| (?!what is tried|what fails|---)(.*) \|$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", page.read_text("utf-8")))
    assert named
    assert sorted(named - DEFINED) == []


def test_every_wall_of_the_threat_model_names_a_test() -> None:
    text = PAGES[0].read_text("utf-8")
    walls = text[text.index("## The walls") : text.index("## What is not stopped")]
    rows = ROW.findall(walls)
    assert len(rows) > 20
    assert [row for row in rows if "`test_" not in row.rpartition("|")[2]] == []
