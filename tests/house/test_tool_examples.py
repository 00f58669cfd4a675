"""Every command on the pages about policy tools prints what the page shows (`make golden` regenerates the output)."""

import re
from pathlib import Path

import pytest

from agent_sandbox.policytools.lint.table import CHECKS
from doc_examples import PAGES, again
from run_cli import Ask, ask, empty_project

__all__ = ["ask", "empty_project"]

REVIEW = Path(__file__).resolve().parents[2] / "docs" / "policy" / "review.md"


def test_every_command_prints_what_the_page_shows(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}.items():
        monkeypatch.setenv(variable, value)

    def run(*argv: str) -> tuple[int, str]:
        answer = ask(*argv)
        return answer.code, answer.out + answer.err

    assert list(empty_project.iterdir()) == []
    for page in PAGES:
        document = page.read_text("utf-8")
        assert again(document, run) == document, page.name


def test_the_document_names_every_check_of_lint() -> None:
    assert re.findall(r"^- `([a-z-]+)`: \S", REVIEW.read_text("utf-8"), re.MULTILINE) == list(CHECKS)
