from pathlib import Path

import pytest

from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.problems import UserError
from fake_docker import FakeDocker


def host() -> EngineHost:
    return EngineHost(engine=DOCKER)


def test_asks_docker_for_its_versions_once(docker: FakeDocker) -> None:
    docker.says("version", out='{"Client": {"Version": "28.0.0"}, "Server": {"Version": "28.0.0"}}')
    found = host()
    assert (found.versions["Client"], found.versions["Server"]) == ({"Version": "28.0.0"},) * 2
    assert (found.answers, len(docker.calls)) == (True, 1)


def test_reports_the_version_of_a_client_without_an_engine(docker: FakeDocker) -> None:
    docker.says("version", out='{"Client": {"Version": "28.0.0"}, "Server": null}', err="Cannot connect", code=1)
    assert (host().versions["Client"]["Version"], host().answers) == ("28.0.0", False)


def test_the_engine_does_not_answer_without_the_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host().answers is False
    with pytest.raises(UserError, match="the docker command was not found"):
        assert host().versions


def test_an_engine_with_another_kernel_is_not_local(docker: FakeDocker) -> None:
    docker.says("info", out='{"KernelVersion": "1.2.3-elsewhere"}')
    assert host().is_local is False


def test_inspects_all_networks_with_one_command(docker: FakeDocker) -> None:
    docker.says("network ls", out="a\nb\n").says("network inspect a b", out='[{"Name": "a"}, {"Name": "b"}]')
    assert host().networks == ({"Name": "a"}, {"Name": "b"})


def test_returns_no_networks_if_the_engine_lists_none(docker: FakeDocker) -> None:
    docker.says("network ls")
    assert host().networks == ()
