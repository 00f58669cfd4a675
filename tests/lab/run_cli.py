"""Command lines, run in this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_sandbox.__main__ import main
from agent_sandbox.features.doctor import missing_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command line."""

    code: int
    out: str
    err: str


type Ask = Callable[..., Answer]


@pytest.fixture
def empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project that commands run in, with a home beside it."""
    folder = tmp_path / "app"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    # Nothing is missing; what is said otherwise is tested beside `missing_parts`.
    monkeypatch.setattr(missing_parts, "report_missing_engine", lambda: None)
    monkeypatch.setattr(missing_parts, "require_all_parts", lambda: None)
    return folder


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return a function that runs a command line in this process."""

    def ask(*argv: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["agent-sandbox", *argv])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return Answer(code=int(left.value.code or 0), out=said.out, err=said.err)

    return ask
