import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.engines.compose.checks import sizes as module
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.sizes import GIB, disk, sizes
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.result import CheckResult, Status
from agent_sandbox.images import base_name, proxy_name
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker

PROJECT = Project(root=Path("/p"), name="app-1", agents=("example",), owner=Owner(), images=(proxy_name(),), files=())
DESTROY = "agent-sandbox destroy removes all volumes, with --images also the images"
EMPTY = "agent-sandbox down && docker volume rm app-1_home-cache empties the cache"
IMAGES = f'500000000 ["{proxy_name()}","other:1"]\n348170157 ["{base_name()}"]\n'
Usage = namedtuple("Usage", "free")  # noqa: PYI024 - as shutil's own


def volume(name: str, size: str, project: str = "app-1") -> dict[str, str]:
    labels = f"com.docker.compose.project={project},com.docker.compose.volume=x"
    return {"Name": f"{project}_{name}", "Size": size, "Labels": labels}


def report(docker: FakeDocker, *, volumes: str, code: int = 0, images: str = "") -> CheckResult:
    docker.says("system df --verbose", out=volumes, code=code).says("image inspect", out=images)
    return sizes(EngineHost(engine=DOCKER), PROJECT)


def found(what: str, hint: str) -> CheckResult:
    return CheckResult(name="sizes", status=Status.OK, what=what, hint=hint)


def test_the_projects_volumes_and_images_are_listed_by_size(docker: FakeDocker) -> None:
    rows = [volume("log", "3.5MB"), volume("home-cache", "1.2GB"), volume("home-cache", "9GB", "app-12")]
    what = (
        "1.2 GB in volumes (home-cache 1.2 GB, log 3.5 MB);"
        f" 848 MB in images, which share layers ({proxy_name()} 500 MB, {base_name()} 348 MB)"
    )
    assert report(docker, volumes=json.dumps(rows), images=IMAGES) == found(what, f"{EMPTY}; {DESTROY}")


def test_names_only_the_five_largest_volumes(docker: FakeDocker) -> None:
    rows = [volume(f"v{number}", f"{number}kB") for number in range(8)]
    what = "28 kB in volumes (v7 7 kB, v6 6 kB, v5 5 kB, v4 4 kB, v3 3 kB, 3 more)"
    assert report(docker, volumes=json.dumps(rows)).what == what


def test_reports_nothing_for_a_project_without_volumes_and_images(docker: FakeDocker) -> None:
    assert report(docker, volumes="[]") == found("nothing yet", DESTROY)


UNKNOWN = "size of the volumes unknown: the Docker engine gave no answer within 5 seconds"


@pytest.mark.parametrize(("out", "code"), [("[]", 1), ("no json", 0), ("[1]", 0), ("null", 0), ('[{"Name": "x"}]', 0)])
def test_reports_an_unknown_size_if_the_engines_answer_is_invalid(docker: FakeDocker, out: str, code: int) -> None:
    expected = found(UNKNOWN, f"docker system df -v shows it; {DESTROY}")
    assert report(docker, volumes=out, code=code) == expected


def test_reports_an_unknown_size_if_the_engine_does_not_answer_in_time(
    docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.05)
    docker.says("system df --verbose", script="exec sleep 30").says("image inspect")
    assert sizes(EngineHost(engine=DOCKER), replace(PROJECT, images=())).what == UNKNOWN.replace("5 sec", "0.05 sec")


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
