import json
from pathlib import Path

import pytest

from agent_sandbox.cli.doctor import as_text, doctor
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.runtime.driver.result import ok, warn


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand where there is neither docker nor a project."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_failure_is_exit_code_1_and_says_what_to_do(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nowhere.exists()
    assert exit_code(doctor) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fail  docker      docker: the docker command was not found"
    assert lines[1].strip().startswith("install Docker Engine (Linux), Docker Desktop or Colima (macOS)")
    assert lines[-1] == "1 to fix"


def test_a_program_gets_every_result(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nowhere.exists()
    assert exit_code(lambda: doctor(json=True)) == 1
    got = json.loads(capsys.readouterr().out)
    assert got["ok"] is False
    assert [(check["name"], check["status"]) for check in got["checks"]] == [("docker", "fail"), ("templates", "ok")]
    assert sorted(got["checks"][0]) == ["hint", "name", "status", "what"]


def test_a_result_is_a_line_and_its_hint_another() -> None:
    assert as_text(ok("disk", "room")) == "ok    disk        room"
    assert as_text(warn("disk", "little", "make room")) == "warn  disk        little\n                  make room"
