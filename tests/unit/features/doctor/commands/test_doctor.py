import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import Status, fail, ok, warn
from agent_sandbox.features.doctor.commands.doctor import as_lines, builds, doctor, folded
from agent_sandbox.images import registries_image
from agent_sandbox.project.trust_store import open_store
from fake_docker import FakeDocker
from fake_stack import trust

NAME = registries_image("").name


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


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without a project."""
    return Machine(path=None, cwd=tmp_path, driver=DRIVER)


def test_asks_the_mirrors_of_this_machine_anew_each_time(
    machine: Machine, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://ann:secret@pip.test/simple")
    docker.says("image inspect").says("build").says("image rm")
    found = ok("builds", "a build can download packages of Debian, npm and PyPI")
    assert [builds(machine), builds(machine)] == [found, found]
    first, second = (call for call in docker.calls if call.startswith("build"))
    assert "--target registries" in first
    assert "PIP_INDEX=https://pip.test/simple" in first
    assert first != second
    assert docker.calls.count(f"image rm {NAME}") == 2


def test_says_why_packages_cannot_be_had(machine: Machine, docker: FakeDocker) -> None:
    docker.says("image inspect").says("build", code=1, err="npm error SELF_SIGNED_CERT_IN_CHAIN")
    found = builds(machine)
    assert (found.status, found.what) == (
        Status.FAIL,
        "a server's certificate is not trusted: something on the way intercepts TLS",
    )
    assert found.hint.startswith("put your company's CA into ~/.config/agent-sandbox")


def test_builds_only_on_a_base_image_that_the_user_trusts(project: Path, docker: FakeDocker) -> None:
    docker.says("image inspect").says("build").says("image rm")
    machine, file = Machine(path=project, cwd=project, driver=DRIVER), project / ".devcontainer" / "sandbox.yaml"
    file.write_text("base_image: evil.test/x\n")
    assert builds(machine).status is Status.OK
    assert "evil.test" not in "".join(docker.calls)
    open_store(os.environ).forget(project)
    assert builds(machine) == fail(
        "builds", "the project's base image evil.test/x is not trusted", "agent-sandbox trust shows it and asks"
    )
    assert "evil.test" not in "".join(docker.calls)
    trust(project)
    assert builds(machine).status is Status.OK
    assert "BASE_IMAGE=evil.test/x" in "".join(docker.calls)


def test_builds_on_the_base_image_of_the_project() -> None:
    image = registries_image("1", "debian.test/x")
    assert (image.arguments, image.follows_base) == ({"BASE_IMAGE": "debian.test/x", "ASKED": "1"}, False)
