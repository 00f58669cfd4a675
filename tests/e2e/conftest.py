"""Fixtures of the tests on a real engine; their classes are in tests/lab/real_stacks.py."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine import proxy_image
from real_stacks import Internet, Project, Projects, remove_network, start_internet, use_own_image
from turns import NIGHTLY

# `make nightly` tries a project of an earlier release, and the whole first day.
collect_ignore = [] if NIGHTLY else ["test_earlier_release.py", "test_first_day.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder: they need an engine."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.docker)


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the projects that the tests trust apart from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """Start the stand-in for the internet, in an image with git, and remove it at the end."""
    yield start_internet(tmp_path_factory.mktemp("internet"), image=proxy_image("claude"))
    remove_network()


@contextmanager
def projects_in(folder: Path, internet: Internet) -> Iterator[Projects]:
    """Make projects whose stacks are removed at the end."""
    for parent in (folder, folder.parent):
        parent.chmod(0o755)  # the stack's users are not the user who runs the tests
    made = Projects(internet, folder)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def projects(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projects]:
    """Make projects whose stacks are removed after the module."""
    with projects_in(tmp_path_factory.mktemp("projects"), internet) as made:
        yield made


@pytest.fixture(scope="session")
def shared(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A stack of Claude Code with its own image, for all modules of a worker, started with plain `docker compose`."""
    with projects_in(tmp_path_factory.mktemp("shared"), internet) as made:
        project = made.make("my project's äpp", "claude")
        use_own_image(project)
        project.sandbox("build")
        project.compose("up", "--detach", "--wait")
        yield project


@pytest.fixture(scope="module")
def claude(shared: Project) -> Iterator[Project]:
    """The shared stack, running. A module leaves it with the policy that it found."""
    policy = shared.policy.read_text()
    shared.sandbox("up")
    yield shared
    shared.write_policy(policy)
