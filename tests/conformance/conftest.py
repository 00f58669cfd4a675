"""The drivers that the suite tries, each in its world."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.runtime.drivers import DRIVERS, load_driver
from driver_worlds import FakeWorld, World, project_in, real_world
from fake_docker import FakeDocker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = {"compose": "docker", "podman": "podman"}


def _local_image() -> str:
    """Return an image that the engine already has: the suite pulls nothing."""
    listed = subprocess.run(
        ["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"], capture_output=True, text=True, check=False
    )
    names = [name for name in listed.stdout.split() if name.startswith(("agent-sandbox/", "debian"))]
    if not names:
        pytest.skip("the Docker engine has no image with a shell: agent-sandbox build makes one")
    return names[0]


@pytest.fixture(params=[*DRIVERS, pytest.param("real compose", marks=pytest.mark.docker)])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return each driver in its world."""
    kind, name = "real" if request.param.startswith("real ") else "fake", request.param.removeprefix("real ")
    made: World
    if kind == "real":
        made = real_world(load_driver(name), tmp_path, program=PROGRAMS[name], image=_local_image())
    else:
        folder = tmp_path / "path"
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))
        fake = FakeDocker(folder, program=PROGRAMS[name])
        made = FakeWorld(driver=load_driver(name), project=project_in(tmp_path, "app-1"), fake=fake)
        made.have()
    yield made
    made.end()
