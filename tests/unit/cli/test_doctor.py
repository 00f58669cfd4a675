import json
from pathlib import Path

import pytest

from agent_sandbox.cli.doctor import as_lines, doctor, folded
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.runtime.driver.result import fail, ok, warn


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
    assert lines[1].strip().startswith("sudo apt install docker.io")
    assert lines[-1] == "1 to fix"


def test_a_program_gets_every_result(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nowhere.exists()
    assert exit_code(lambda: doctor(json=True)) == 1
    got = json.loads(capsys.readouterr().out)
    assert got["ok"] is False
    assert [(check["name"], check["status"]) for check in got["checks"]] == [("docker", "fail"), ("templates", "ok")]
    assert sorted(got["checks"][0]) == ["hint", "name", "status", "what"]


def test_a_result_is_a_line_and_its_hint_another() -> None:
    assert [*as_lines(ok("disk", "room"))] == ["ok    disk        room"]
    expected = ["warn  disk        little", "                  make room"]
    assert [*as_lines(warn("disk", "little", "make room"))] == expected


def test_no_line_of_a_result_begins_like_another_result() -> None:
    expected = ["fail  stack       x.yml", "                  ok    stack       fine"]
    assert [*as_lines(fail("stack", "x.yml\nok    stack       fine"))] == expected


def test_several_known_vulnerabilities_are_one_line() -> None:
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


def test_one_known_vulnerability_is_shown_as_it_is() -> None:
    found = [warn("holes", "runc 1 has CVE-1: a", "update runc"), warn("disk", "little"), warn("disk", "less")]
    assert [*folded(found)] == found
