import json
from pathlib import Path

import pytest

from agent_sandbox.cli.doctor import as_lines, doctor, folded
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.runtime.driver.result import fail, ok, warn


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with neither docker nor a project."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_failure_prints_a_fix_and_exits_with_1(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nowhere.exists()
    assert exit_code(doctor) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fail  docker      docker: the docker command was not found"
    assert lines[1].strip().startswith("sudo apt install docker.io")
    assert lines[-1] == "1 to fix"


def test_json_output_has_every_result(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nowhere.exists()
    assert exit_code(lambda: doctor(json=True)) == 1
    got = json.loads(capsys.readouterr().out)
    assert got["ok"] is False
    assert [(check["name"], check["status"]) for check in got["checks"]] == [("docker", "fail"), ("templates", "ok")]
    assert sorted(got["checks"][0]) == ["hint", "name", "status", "what"]


def test_prints_the_hint_on_a_separate_line() -> None:
    assert [*as_lines(ok("disk", "room"))] == ["ok    disk        room"]
    expected = ["warn  disk        little", "                  make room"]
    assert [*as_lines(warn("disk", "little", "make room"))] == expected


def test_indents_further_lines_of_a_result() -> None:
    expected = ["fail  stack       x.yml", "                  ok    stack       fine"]
    assert [*as_lines(fail("stack", "x.yml\nok    stack       fine"))] == expected


def test_combines_several_known_vulnerabilities_in_one_line() -> None:
    found = [
        ok("seccomp", "on"),
        warn("holes", "runc 1 has CVE-1: a", "update runc"),
        warn("holes", "runc 1 has CVE-2: b", "update runc"),
        warn("holes", "engine 2 has CVE-3: c", "update engine"),
        ok("holes", "none known in compose 3"),
    ]
    hint = "update them, unless your distribution has fixed these versions; agent-sandbox doctor --json lists each"
    one = warn("holes", "3 known vulnerabilities in runc 1, engine 2", hint)
    assert [*folded(found)] == [found[0], one, found[-1]]


def test_prints_a_single_known_vulnerability_unchanged() -> None:
    found = [warn("holes", "runc 1 has CVE-1: a", "update runc"), warn("disk", "little"), warn("disk", "less")]
    assert [*folded(found)] == found
