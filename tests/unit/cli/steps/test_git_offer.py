"""`review` and the git settings that the agent wanted to save."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.review import review
from agent_sandbox.runtime.review.baseline import save_baseline
from agent_sandbox.runtime.review.changes import take
from fake_tty import Person, Screen

KEPT = "[user]\n\tname = Bot\n[core]\n\tpager = \x1bevil\n"
OFFERED = [
    "git  settings that the agent wanted to save in your repository",
    "  new      user.name = Bot",
    "  refused  core.pager = \\x1bevil",
    "  refused settings could run a program or connect elsewhere: to save one anyway, run `git config` yourself",
]
TO_SAVE = "git settings to save: agent-sandbox review at a terminal, or --accept .git/config, or --restore .git/config"
SAVED = "saved in .git/config: user.name"


@pytest.fixture
def wished(project: Path) -> Path:
    """Have git settings that the agent could not save."""
    subprocess.run(["git", "init", "--quiet", project], check=True)
    save_baseline(project, os.environ, take(project))
    (project / ".git" / "agent-sandbox.config").write_text(KEPT)
    return project


def name(root: Path) -> str:
    argv = ["git", "-C", str(root), "config", "--local", "user.name"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def test_settings_that_the_agent_wanted_to_save_are_shown(wished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(review) == 1
    assert capsys.readouterr().out.splitlines() == [*OFFERED, TO_SAVE]
    assert exit_code(lambda: review(json=True)) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["git"] == {"offered": [["user.name", "Bot"]], "refused": [["core.pager", "\x1bevil"]]}
    assert name(wished) == ""


def test_saves_settings_only_if_their_file_is_named(wished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (wished / "Makefile").write_text("new\n")
    assert exit_code(lambda: review(accept=True)) == 0
    assert (name(wished), capsys.readouterr().err) == ("", f"1 change accepted\n{TO_SAVE}\n")
    assert exit_code(lambda: review([".git/config"], accept=True)) == 0
    assert (name(wished), capsys.readouterr().err) == ("Bot", f"{SAVED}\n")
    assert exit_code(review) == 0
    assert capsys.readouterr().out.splitlines() == [OFFERED[0], *OFFERED[2:]]
    assert exit_code(lambda: review([".git/config"], accept=True)) == 0
    assert exit_code(lambda: review([".git/config"], restore=True)) == 0
    assert capsys.readouterr().err == f"removed {wished}/.git/agent-sandbox.config\n"
    assert exit_code(lambda: review([".git/config"])) == 0
    assert capsys.readouterr().out == "nothing to review\n"


@pytest.mark.parametrize(
    ("typed", "code", "now", "is_left"),
    [("y\n", 0, "Bot", True), ("n\n", 1, "", True), ("", 1, "", True), ("d\n", 0, "", False)],
)
def test_the_user_is_asked_about_settings(
    wished: Path, monkeypatch: pytest.MonkeyPatch, *, typed: str, code: int, now: str, is_left: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Person(typed))
    monkeypatch.setattr(sys, "stdout", Screen())
    assert exit_code(review) == code
    assert (name(wished), (wished / ".git" / "agent-sandbox.config").exists()) == (now, is_left)


def test_refused_settings_alone_cannot_be_accepted(
    wished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (wished / ".git" / "agent-sandbox.config").write_text("[core]\n\tpager = evil\n")
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    monkeypatch.setattr(sys, "stdout", Screen())
    assert exit_code(review) == 0
    assert capsys.readouterr().err == "Drop these settings? [d]rop, [n]ot now: "
    assert "pager" not in (wished / ".git" / "config").read_text()


def test_settings_are_not_asked_about_after_quitting(wished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wished / "Makefile").write_text("new\n")
    monkeypatch.setattr(sys, "stdin", Person("q\ny\n"))
    monkeypatch.setattr(sys, "stdout", Screen())
    assert exit_code(review) == 1
    assert name(wished) == ""
