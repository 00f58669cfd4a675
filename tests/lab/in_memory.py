"""Repositories below /dev/shm, where the tests may have their temporary files."""

import pytest

from agent_sandbox.host.git import worktree


@pytest.fixture(autouse=True)
def repositories_in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a repository be below /dev, which could not be mounted in a container."""
    if "tmp_path" in request.fixturenames:
        monkeypatch.setattr(worktree, "OF_THE_IMAGE", worktree.OF_THE_IMAGE - {"dev"})
