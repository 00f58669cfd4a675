import pytest

from agent_sandbox.runtime.git import worktree
from fake_docker import docker

__all__ = ["docker"]


@pytest.fixture(autouse=True)
def repositories_in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files may be below /dev/shm; a repository there could not be mounted in a container."""
    if "tmp_path" in request.fixturenames:
        monkeypatch.setattr(worktree, "OF_THE_IMAGE", worktree.OF_THE_IMAGE - {"dev"})
