"""Fixtures of the shell tests. Their classes are in tests/lab/bash_harness.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bash_harness import Shell, StandInProxy, stand_in_proxy, wired_shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell on this machine."""
    home = tmp_path / "home"
    home.mkdir()
    return Shell(home=home)


@pytest.fixture
def proxy() -> Iterator[StandInProxy]:
    """A stand-in for the proxy on loopback."""
    with stand_in_proxy() as proxy:
        yield proxy


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Shell]:
    """A shell in a network namespace, connected to a peer that answers as the proxy and as the internet."""
    with wired_shell(tmp_path) as shell:
        yield shell
