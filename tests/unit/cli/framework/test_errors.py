import os
import sys
from pathlib import Path

import pytest

from agent_sandbox import __version__
from agent_sandbox.cli.framework.errors import exit_code, write_fault
from agent_sandbox.problems import Problem, UserError


def raising(error: BaseException) -> int:
    def call() -> None:
        raise error

    return exit_code(call)


def test_every_outcome_has_its_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert exit_code(lambda: None) == 0
    assert exit_code(lambda: 7) == 7
    assert raising(UserError([Problem(where="a", what="b")])) == 1
    assert raising(ValueError("x")) == 3
    assert raising(KeyboardInterrupt()) == 130


def test_passes_on_system_exit() -> None:
    with pytest.raises(SystemExit) as left:
        raising(SystemExit(5))
    assert left.value.code == 5


def test_logs_an_internal_error_and_names_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert raising(RuntimeError("unforeseen")) == 3
    (log,) = (tmp_path / "agent-sandbox" / "faults").iterdir()
    assert capsys.readouterr().err == (
        f"error: this is a bug in agent-sandbox: RuntimeError: unforeseen\n  hint: please report it and attach {log}\n"
    )
    text = log.read_text()
    assert text.startswith(f"agent-sandbox {__version__}, Python ")
    assert text.endswith("RuntimeError: unforeseen\n")
    assert log.stat().st_mode & 0o077 == 0


def test_writes_a_temporary_log_without_a_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert write_fault(ValueError("x")).parent == tmp_path


def test_prints_the_traceback_if_no_log_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    assert write_fault(ValueError("x")) == Path("the traceback above")
    assert "ValueError: x" in capsys.readouterr().err


def test_a_closed_pipe_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        assert raising(BrokenPipeError()) == 1
        broken.write("goes nowhere, and without an error")
