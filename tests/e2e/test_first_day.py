"""The first day with the sandbox, from the installation to a pushed branch: day/steps.yaml, typed into a real zsh."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from first_day import sit_down, steps, take
from users_machine import UsersMachine, build_images, download_wheels


def prepare() -> None:
    build_images()
    download_wheels()


@pytest.fixture(scope="module")
def machine() -> Iterator[UsersMachine]:
    with TemporaryDirectory(prefix="agent-sandbox-day-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the users of the machine's containers are not the user who runs the tests
        made = UsersMachine(folder)
        yield made
        made.remove()


@pytest.fixture(scope="module")
def asked(machine: UsersMachine, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Take every step; return the requests that reached the internet, as (host, path)."""
    shell = sit_down(machine, tmp_path_factory.mktemp("ann"))
    try:
        for step in steps():
            take(step, shell)
    finally:
        shell.close()
    lines = [json.loads(line) for line in machine.docker("logs", "outside").splitlines()]
    return [(line["host"], line["path"]) for line in lines if line["event"] == "request"]


def test_every_step_shows_the_expected_text_and_the_branch_is_pushed(asked: list[tuple[str, str]]) -> None:
    assert ("github.com", "/ann/express/git-receive-pack") in asked


def test_no_package_is_downloaded_twice(asked: list[tuple[str, str]]) -> None:
    archives = [path for _, path in asked if path.endswith(".tgz")]
    assert len(archives) == len({*archives}) == 71
