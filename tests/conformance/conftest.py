"""The drivers under test, each with its world."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_sandbox.engines.drivers import DRIVERS, load_driver
from driver_worlds import FakeWorld, World, project_in, real_world
from engine import proxy_image, run
from fake_docker import FakeDocker


def _image() -> str:
    """Return one of our images, of any version. Build it if the engine has none."""
    listed = run("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "agent-sandbox/proxy")
    return next(iter(listed.stdout.split()), "") or proxy_image()


WORLDS = [*DRIVERS, *(pytest.param(f"real {name}", marks=pytest.mark.docker) for name in DRIVERS)]


@contextmanager
def made_world(name: str, root: Path) -> Iterator[World]:
    """Make the world of a driver, with a fake or a real engine, and end it after the block."""
    made: World
    driver = load_driver(name.removeprefix("real "))
    if name.startswith("real "):
        made = real_world(driver, root, image=_image())
    else:
        folder = root / "path"
        folder.mkdir()
        made = FakeWorld(driver=driver, project=project_in(root, "app-1"), fake=FakeDocker(folder))
        made.have()
    try:
        yield made
    finally:
        made.end()


def entered(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Put a fake engine on PATH until the test ends: other tests of the module use the real one."""
    if isinstance(world, FakeWorld):
        monkeypatch.setenv("PATH", str(world.fake.folder))
    return world


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Each driver, with a project of the test's own that is down."""
    with made_world(request.param, tmp_path) as made:
        yield entered(made, monkeypatch)


@pytest.fixture(scope="module", params=WORLDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Each driver, with one running stack for all tests of a module."""
    with made_world(request.param, tmp_path_factory.mktemp("shared")) as made:
        made.have(proxy="healthy", firewall="healthy", agent="healthy")
        yield made


@pytest.fixture
def running(shared: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Each driver, with a running stack whose containers the test neither ends nor changes."""
    return entered(shared, monkeypatch)
