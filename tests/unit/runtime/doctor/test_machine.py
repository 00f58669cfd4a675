from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.doctor.machine import Machine
from fake_docker import FakeDocker


def machine(cwd: Path = Path("/")) -> Machine:
    return Machine(path=None, cwd=cwd)


def test_versions_are_asked_for_once(docker: FakeDocker) -> None:
    docker.says("version", out='{"Client": {"Version": "28.0.0"}, "Server": {"Version": "28.0.0"}}')
    found = machine()
    assert (found.versions["Client"], found.versions["Server"]) == ({"Version": "28.0.0"},) * 2
    assert (found.engine_answers, len(docker.calls)) == (True, 1)


def test_a_client_without_an_engine_has_its_version_all_the_same(docker: FakeDocker) -> None:
    docker.says("version", out='{"Client": {"Version": "28.0.0"}, "Server": null}', err="Cannot connect", code=1)
    assert (machine().versions["Client"]["Version"], machine().engine_answers) == ("28.0.0", False)


def test_without_docker_no_engine_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine().engine_answers is False
    with pytest.raises(UserError, match="the docker command was not found"):
        assert machine().versions


def test_an_engine_of_another_kernel_is_elsewhere(docker: FakeDocker) -> None:
    docker.says("info", out='{"KernelVersion": "1.2.3-elsewhere"}')
    assert machine().is_local is False


def test_networks_are_inspected_all_at_once(docker: FakeDocker) -> None:
    docker.says("network ls", out="a\nb\n").says("network inspect a b", out='[{"Name": "a"}, {"Name": "b"}]')
    assert machine().networks == ({"Name": "a"}, {"Name": "b"})


def test_an_engine_without_networks_is_not_asked_for_them(docker: FakeDocker) -> None:
    docker.says("network ls")
    assert machine().networks == ()


def test_a_project_is_looked_for_upwards(tmp_path: Path) -> None:
    assert machine(tmp_path).has_project is False
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").touch()
    assert machine(tmp_path / "src").has_project is True
    assert Machine(path=tmp_path, cwd=Path("/")).has_project is True
    with pytest.raises(UserError, match="not a compose file of agent-sandbox"):
        assert machine(tmp_path).project.name
