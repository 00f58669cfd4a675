"""docs/index.md lists every page, one line each."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
SHARED = re.compile(r"- \[[^\]]+\]\(([^)#]+)(?:#[^)]+)?\): \S.*[^.]")
LINES = [line for line in (DOCS / "index.md").read_text("utf-8").splitlines() if line and not line.startswith("#")]


def test_index_has_one_line_for_each_link() -> None:
    assert [line for line in LINES if not SHARED.fullmatch(line)] == []


def test_index_lists_every_page() -> None:
    linked = {match[1] for line in LINES if (match := SHARED.fullmatch(line))}
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "adr"}
    assert pages - linked == {"index.md"}
    assert "adr/" in linked
