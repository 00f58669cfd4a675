from pathlib import Path

import pytest

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.result import CheckResult, fail, ok
from agent_sandbox.runtime.doctor.table import CHECKS, Row, examine


def fine(machine: Machine) -> CheckResult:
    return ok("fine", str(machine.cwd))


def several(machine: Machine) -> list[CheckResult]:
    return [ok("one", str(machine.cwd)), ok("two", str(machine.cwd))]


def broken(machine: Machine) -> CheckResult:
    raise UserError([Problem(where=str(machine.cwd), what="wrong", hint="mend it"), Problem(where="", what="also")])


def test_a_check_gives_one_result_or_several(tmp_path: Path) -> None:
    rows = (Row(name="fine", check=fine), Row(name="several", check=several))
    found = [result.name for result in examine(Machine(path=None, cwd=tmp_path), rows)]
    assert found == ["fine", "one", "two"]


def test_a_check_that_can_not_look_has_failed_and_one_cause_is_told_once(tmp_path: Path) -> None:
    rows = (Row(name="a", check=broken), Row(name="b", check=broken), Row(name="c", check=fine))
    expected = [fail("a", f"{tmp_path}: wrong", "mend it"), fail("a", "also"), ok("fine", str(tmp_path))]
    assert list(examine(Machine(path=None, cwd=tmp_path), rows)) == expected


def test_what_needs_an_engine_or_a_project_waits_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = (
        Row(name="a", check=broken, engine=True),
        Row(name="b", check=broken, project=True),
        Row(name="c", check=fine),
    )
    assert list(examine(Machine(path=None, cwd=tmp_path), rows)) == [ok("fine", str(tmp_path))]


def test_without_docker_the_whole_table_is_one_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [(result.name, result.status.value) for result in examine(Machine(path=None, cwd=tmp_path))]
    assert found == [("docker", "fail"), ("templates", "ok")]


def test_each_name_stands_once() -> None:
    names = [row.name for row in CHECKS]
    assert sorted(set(names)) == sorted(names)
