from pathlib import Path

import pytest

from agent_sandbox.images import registries_image
from agent_sandbox.runtime.compose.driver import DRIVER
from agent_sandbox.runtime.doctor.builds import builds
from agent_sandbox.runtime.driver.protocol import Machine
from agent_sandbox.runtime.driver.result import Status, ok
from fake_docker import FakeDocker

NAME = registries_image("").name


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


def test_builds_on_the_base_image_of_the_project() -> None:
    image = registries_image("1", "debian.test/x")
    assert (image.arguments, image.follows_base) == ({"BASE_IMAGE": "debian.test/x", "ASKED": "1"}, False)
