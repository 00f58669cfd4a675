"""No unit test reaches the engine, the network beyond loopback, or the settings of whoever runs it."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.engines.compose import platforms
from agent_sandbox.host import user_dirs

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
CONNECT = socket.socket.connect


def connect_here(self: socket.socket, address: Any) -> None:  # noqa: ANN401 - as the socket module has it
    """Connect to loopback, or to a socket in the file system, and to nothing else."""
    if self.family != socket.AF_UNIX and address[0] not in LOOPBACK:
        pytest.fail(f"a unit test wants to connect to {address}")
    CONNECT(self, address)


@pytest.fixture(autouse=True, scope="module")
def fence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the module an empty home and an engine that does not exist."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("DOCKER_HOST", f"unix://{home}/no-engine.sock")
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "AGENT_SANDBOX_EXTRA_CA"):
            patch.delenv(name, raising=False)
        patch.setattr(user_dirs, "ORGANISATION", home / "etc")
        patch.setattr(platforms, "here", lambda: platforms.Surroundings(distribution=("ubuntu", "debian")))
        patch.setattr(socket.socket, "connect", connect_here)
        # Nothing of a test has to outlive a power cut, and a disk takes milliseconds over each of a thousand.
        patch.setattr(os, "fsync", lambda _handle: None)
        yield home


@pytest.fixture(autouse=True)
def fenced(fence: Path) -> Iterator[Path]:
    """Give each test that home as empty as the first found it: few write there, so it is not made anew for each."""
    yield fence
    for left in fence.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
