import subprocess
from pathlib import Path

import pytest

from agent_sandbox.features.review import scan
from agent_sandbox.features.review.unreviewed import record_first_review, report_unreviewed


def test_records_only_at_the_first_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_unreviewed(tmp_path)
    (tmp_path / "Makefile").write_text("a")
    record_first_review(tmp_path)
    report_unreviewed(tmp_path)
    assert capsys.readouterr().err == ""
    (tmp_path / "Makefile").write_text("b")
    record_first_review(tmp_path)
    report_unreviewed(tmp_path)
    (tmp_path / "run.sh").write_text("x")
    report_unreviewed(tmp_path)
    assert capsys.readouterr().err == (
        "review: 1 file that would run outside changed: agent-sandbox review\n"
        "review: 2 files that would run outside changed: agent-sandbox review\n"
    )


def test_mentions_a_project_that_was_not_searched_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record_first_review(tmp_path)
    (tmp_path / "run.sh").write_text("x")
    monkeypatch.setattr(scan, "MOST_ENTRIES", 0)
    report_unreviewed(tmp_path)
    said = "review: the project has too many files to look at all: agent-sandbox review\n"
    assert capsys.readouterr().err == said


def test_mentions_git_settings_that_the_agent_could_not_save(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    record_first_review(tmp_path)
    kept = tmp_path / ".git" / "agent-sandbox.config"
    for text in ("[core]\n\tpager = evil\n", "[user]\n\tname = Bot\n"):
        kept.write_text(text)
        report_unreviewed(tmp_path)
    assert capsys.readouterr().err == "review: the agent wanted to save git settings: agent-sandbox review\n"
