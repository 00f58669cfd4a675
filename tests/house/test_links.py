"""Every relative link of a page leads to a file, and its anchor to a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the page's headings."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_nowhere(page: Path, target: str, anchor: str) -> bool:
    """Return whether a link of `page` names a file or a heading that does not exist."""
    file = (page.parent / target) if target else page
    return not file.exists() or bool(anchor and file.suffix == ".md" and anchor not in anchors(file))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    links = LINK.findall(CODE.sub("", page.read_text("utf-8")))
    assert [link for link in links if leads_nowhere(page, *link)] == []


@pytest.mark.parametrize(
    "link", [("no-such-page.md", ""), ("", "no-such-heading"), ("docs/index.md", "no-such-heading")]
)
def test_a_link_that_leads_nowhere_is_noticed(link: tuple[str, str]) -> None:
    assert leads_nowhere(ROOT / "README.md", *link)
