from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.engine import DOCKER
from fake_docker import FakeDocker


def host() -> EngineHost:
    return EngineHost(engine=DOCKER)


def test_versions_are_asked_for_once(docker: FakeDocker) -> None:
    docker.says("version", out='{"Client": {"Version": "28.0.0"}, "Server": {"Version": "28.0.0"}}')
    found = host()
    assert (found.versions["Client"], found.versions["Server"]) == ({"Version": "28.0.0"},) * 2
    assert (found.answers, len(docker.calls)) == (True, 1)


def test_a_client_without_an_engine_has_its_version_all_the_same(docker: FakeDocker) -> None:
    docker.says("version", out='{"Client": {"Version": "28.0.0"}, "Server": null}', err="Cannot connect", code=1)
    assert (host().versions["Client"]["Version"], host().answers) == ("28.0.0", False)


def test_without_docker_no_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host().answers is False
    with pytest.raises(UserError, match="the docker command was not found"):
        assert host().versions


def test_an_engine_of_another_kernel_is_elsewhere(docker: FakeDocker) -> None:
    docker.says("info", out='{"KernelVersion": "1.2.3-elsewhere"}')
    assert host().is_local is False


def test_networks_are_inspected_all_at_once(docker: FakeDocker) -> None:
    docker.says("network ls", out="a\nb\n").says("network inspect a b", out='[{"Name": "a"}, {"Name": "b"}]')
    assert host().networks == ({"Name": "a"}, {"Name": "b"})


def test_an_engine_without_networks_is_not_asked_for_them(docker: FakeDocker) -> None:
    docker.says("network ls")
    assert host().networks == ()
