"""The drivers under test, each with its world."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.runtime.drivers import DRIVERS, load_driver
from driver_worlds import FakeWorld, World, project_in, real_world
from engine import proxy_image, run
from fake_docker import FakeDocker

PROGRAMS = {"compose": "docker", "podman": "podman"}


# Use a real podman if it is installed. It needs an image `agent-sandbox/proxy` and its service on its socket.
REAL = [name for name, program in PROGRAMS.items() if program == "docker" or shutil.which(program)]


def _image(program: str) -> str:
    """Return one of our images, of any version. Build it if the engine has none."""
    listed = run(program, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "agent-sandbox/proxy")
    return next(iter(listed.stdout.split()), "") or proxy_image()


@pytest.fixture(params=[*DRIVERS, *(pytest.param(f"real {name}", marks=pytest.mark.docker) for name in REAL)])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Each driver, with a fake or a real engine."""
    kind, name = "real" if request.param.startswith("real ") else "fake", request.param.removeprefix("real ")
    made: World
    if kind == "real":
        made = real_world(load_driver(name), tmp_path, program=PROGRAMS[name], image=_image(PROGRAMS[name]))
    else:
        folder = tmp_path / "path"
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))
        fake = FakeDocker(folder, program=PROGRAMS[name])
        made = FakeWorld(driver=load_driver(name), project=project_in(tmp_path, "app-1"), fake=fake)
        made.have()
    yield made
    made.end()
