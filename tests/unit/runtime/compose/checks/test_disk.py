import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from agent_sandbox.runtime.compose.checks.disk import GIB, disk
from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.engine import DOCKER
from agent_sandbox.runtime.driver.result import Status
from fake_docker import FakeDocker

Usage = namedtuple("Usage", "free")  # noqa: PYI024 - as shutil's own


def host(docker: FakeDocker, root: Path, kernel: str) -> EngineHost:
    docker.says("info", out=json.dumps({"DockerRootDir": str(root), "KernelVersion": kernel}))
    return EngineHost(engine=DOCKER)


@pytest.mark.parametrize(("free", "status"), [(1, Status.FAIL), (5, Status.WARN), (50, Status.OK)])
def test_reports_the_free_space_in_the_directory_of_the_images(
    docker: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: Status
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=free * GIB))
    monkeypatch.setattr(EngineHost, "is_local", True)
    found = disk(host(docker, tmp_path, "x"))
    assert (found.status, found.what) == (status, f"{free}.0 GiB free for images in {tmp_path}")


def test_reports_no_free_space_if_the_engine_runs_on_another_system(docker: FakeDocker, tmp_path: Path) -> None:
    found = disk(host(docker, tmp_path, "another kernel"))
    assert (found.status, found.what.partition(";")[0]) == (Status.OK, "the Docker engine's disk is not on this system")
