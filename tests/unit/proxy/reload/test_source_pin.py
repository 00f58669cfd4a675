from dataclasses import replace
from pathlib import Path

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.problems import UserError
from agent_sandbox.proxy.reload.source_pin import SourcePin


def load(path: Path) -> Policy:
    return replace(Policy.deny_all(""), digest=path.read_text())


class Host:
    """A policy folder that can be replaced."""

    def __init__(self, root: Path) -> None:
        self.file = root / "policy" / "policy.yaml"
        self.memory = root / "state" / "folder.json"
        self.file.parent.mkdir()
        self.file.write_text("first")
        self.kept: list[Path] = []

    def replace(self, text: str) -> None:
        """Replace the folder; the old one is kept, so its inode number is not reused."""
        self.kept.append(self.file.parent.rename(self.file.parent.with_name(f"old-{len(self.kept)}")))
        self.file.parent.mkdir()
        self.file.write_text(text)

    def start(self, container: str = "a") -> str:
        """Start the proxy of a container, and return the policy that it loads."""
        return SourcePin(load=load, memory=self.memory, container=container).take(self.file).digest


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


REFUSED = (
    "its directory was replaced on the host after the proxy was created, and now has a different policy; "
    "check who wrote it, then run agent-sandbox up to recreate the proxy"
)


def test_rejects_a_different_policy_from_a_replaced_folder_at_every_start(host: Host) -> None:
    assert host.start() == "first"
    host.replace("second")
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            host.start()
        assert str(caught.value) == f"{host.file}: {REFUSED}"


def test_accepts_an_edit_in_the_pinned_folder(host: Host) -> None:
    assert host.start() == "first"
    host.file.write_text("second")
    assert host.start() == "second"


def test_pins_a_replaced_folder_with_the_same_policy(host: Host) -> None:
    assert host.start() == "first"
    host.replace("first")
    assert host.start() == "first"
    host.file.write_text("second")
    assert host.start() == "second"


def test_a_new_container_accepts_the_replaced_folder(host: Host) -> None:
    assert host.start() == "first"
    host.replace("second")
    assert host.start("b") == "second"


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_ignores_an_invalid_pin_file(host: Host, text: str) -> None:
    host.memory.parent.mkdir()
    host.memory.write_text(text)
    assert host.start() == "first"


def test_keeps_the_old_pin_if_the_new_pin_cannot_be_written(host: Host) -> None:
    assert host.start() == "first"
    host.memory.with_suffix(".new").mkdir()
    host.file.write_text("second")
    assert host.start() == "second"
    host.replace("third")
    with pytest.raises(UserError):
        host.start()
