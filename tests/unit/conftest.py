"""No unit test reaches the engine, the network beyond loopback, or the settings of whoever runs it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from agent_sandbox.runtime import places

if TYPE_CHECKING:
    from pathlib import Path

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
CONNECT = socket.socket.connect


def connect_here(self: socket.socket, address: Any) -> None:  # noqa: ANN401 - as the socket module has it
    """Connect to loopback, or to a socket in the file system, and to nothing else."""
    if self.family != socket.AF_UNIX and address[0] not in LOOPBACK:
        pytest.fail(f"a unit test wants to connect to {address}")
    CONNECT(self, address)


@pytest.fixture(autouse=True)
def fenced(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the test an empty home and an engine that does not exist."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{home}/no-engine.sock")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "AGENT_SANDBOX_EXTRA_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "ORGANISATION", home / "etc")
    monkeypatch.setattr(socket.socket, "connect", connect_here)
    return home
