from pathlib import Path

import pytest

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.compose.driver import DRIVER
from agent_sandbox.runtime.doctor.table import checks_for, examine
from agent_sandbox.runtime.driver.protocol import Machine, Row, Stage
from agent_sandbox.runtime.driver.result import CheckResult, fail, ok


def fine(machine: Machine) -> CheckResult:
    return ok("fine", str(machine.cwd))


def several(machine: Machine) -> list[CheckResult]:
    return [ok("one", str(machine.cwd)), ok("two", str(machine.cwd))]


def broken(machine: Machine) -> CheckResult:
    raise UserError([Problem(where=str(machine.cwd), what="wrong", hint="mend it"), Problem(where="", what="also")])


def test_a_check_gives_one_result_or_several(tmp_path: Path) -> None:
    rows = (Row(name="fine", stage=Stage.PROJECT, check=fine), Row(name="several", stage=Stage.PROJECT, check=several))
    found = [result.name for result in examine(Machine(path=None, cwd=tmp_path, driver=DRIVER), rows)]
    assert found == ["fine", "one", "two"]


def test_a_check_that_can_not_look_has_failed_and_one_cause_is_told_once(tmp_path: Path) -> None:
    rows = (
        Row(name="a", stage=Stage.PROJECT, check=broken),
        Row(name="b", stage=Stage.PROJECT, check=broken),
        Row(name="c", stage=Stage.PROJECT, check=fine),
    )
    expected = [fail("a", f"{tmp_path}: wrong", "mend it"), fail("a", "also"), ok("fine", str(tmp_path))]
    assert list(examine(Machine(path=None, cwd=tmp_path, driver=DRIVER), rows)) == expected


def test_what_needs_an_engine_or_a_project_waits_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = (
        Row(name="a", stage=Stage.PROJECT, check=broken, engine=True),
        Row(name="b", stage=Stage.PROJECT, check=broken, project=True),
        Row(name="c", stage=Stage.PROJECT, check=fine),
    )
    assert list(examine(Machine(path=None, cwd=tmp_path, driver=DRIVER), rows)) == [ok("fine", str(tmp_path))]


def test_without_docker_the_whole_table_is_one_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [(result.name, result.status.value) for result in examine(Machine(path=None, cwd=tmp_path, driver=DRIVER))]
    assert found == [("docker", "fail"), ("templates", "ok")]


def test_checks_come_in_the_order_in_which_a_user_would_fix_things(tmp_path: Path) -> None:
    names = [row.name for row in checks_for(Machine(path=None, cwd=tmp_path, driver=DRIVER))]
    assert names == [
        *("docker", "engine", "compose", "buildx", "platform", "isolation", "seccomp", "holes", "disk"),
        *("templates", "stack", "policy", "webhook", "upstream"),
        *("dotenv", "limits", "kernel", "owner"),
        *("mounts", "workspace", "git", "firewall", "images", "subnet", "beside", "sizes"),
    ]
