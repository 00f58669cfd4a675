from pathlib import Path

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.protocol import Machine, Row, Stage
from agent_sandbox.engines.result import CheckResult, fail, ok
from agent_sandbox.features.doctor.table import checks_for, examine
from agent_sandbox.problems import Problem, UserError


def fine(machine: Machine) -> CheckResult:
    return ok("fine", str(machine.cwd))


def several(machine: Machine) -> list[CheckResult]:
    return [ok("one", str(machine.cwd)), ok("two", str(machine.cwd))]


def broken(machine: Machine) -> CheckResult:
    raise UserError([Problem(where=str(machine.cwd), what="wrong", hint="mend it"), Problem(where="", what="also")])


def test_a_check_returns_one_result_or_several(tmp_path: Path) -> None:
    rows = (Row(name="fine", stage=Stage.PROJECT, check=fine), Row(name="several", stage=Stage.PROJECT, check=several))
    found = [result.name for result in examine(Machine(path=None, cwd=tmp_path, driver=DRIVER), rows)]
    assert found == ["fine", "one", "two"]


def test_a_check_that_raises_has_failed_and_equal_problems_are_reported_once(tmp_path: Path) -> None:
    rows = (
        Row(name="a", stage=Stage.PROJECT, check=broken),
        Row(name="b", stage=Stage.PROJECT, check=broken),
        Row(name="c", stage=Stage.PROJECT, check=fine),
    )
    expected = [fail("a", f"{tmp_path}: wrong", "mend it"), fail("a", "also"), ok("fine", str(tmp_path))]
    assert list(examine(Machine(path=None, cwd=tmp_path, driver=DRIVER), rows)) == expected


def test_skips_checks_whose_docker_engine_or_project_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = (
        Row(name="a", stage=Stage.PROJECT, check=broken, engine=True),
        Row(name="b", stage=Stage.PROJECT, check=broken, project=True),
        Row(name="c", stage=Stage.PROJECT, check=fine),
    )
    assert list(examine(Machine(path=None, cwd=tmp_path, driver=DRIVER), rows)) == [ok("fine", str(tmp_path))]


def test_without_docker_only_the_docker_and_template_checks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [(result.name, result.status.value) for result in examine(Machine(path=None, cwd=tmp_path, driver=DRIVER))]
    assert found == [("docker", "fail"), ("templates", "ok")]


def test_lists_checks_in_the_order_in_which_a_user_fixes_problems(tmp_path: Path) -> None:
    names = [row.name for row in checks_for(Machine(path=None, cwd=tmp_path, driver=DRIVER))]
    assert names == [
        *("docker", "engine", "compose", "buildx", "platform", "isolation", "seccomp", "holes", "disk"),
        *("templates", "stack", "policy", "webhook", "upstream"),
        *("dotenv", "limits", "kernel", "owner"),
        *("mounts", "workspace", "git", "firewall", "requests", "images", "subnet", "beside", "sizes"),
    ]
