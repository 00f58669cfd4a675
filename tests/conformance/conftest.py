"""The drivers under test, each with its world."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.runtime.drivers import DRIVERS, load_driver
from driver_worlds import FakeWorld, World, project_in, real_world
from engine import proxy_image, run
from fake_docker import FakeDocker


def _image() -> str:
    """Return one of our images, of any version. Build it if the engine has none."""
    listed = run("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "agent-sandbox/proxy")
    return next(iter(listed.stdout.split()), "") or proxy_image()


@pytest.fixture(params=[*DRIVERS, *(pytest.param(f"real {name}", marks=pytest.mark.docker) for name in DRIVERS)])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Each driver, with a fake or a real engine."""
    made: World
    driver = load_driver(request.param.removeprefix("real "))
    if request.param.startswith("real "):
        made = real_world(driver, tmp_path, image=_image())
    else:
        folder = tmp_path / "path"
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))
        made = FakeWorld(driver=driver, project=project_in(tmp_path, "app-1"), fake=FakeDocker(folder))
        made.have()
    yield made
    made.end()
