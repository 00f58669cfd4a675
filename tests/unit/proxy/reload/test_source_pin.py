from dataclasses import replace
from pathlib import Path

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.problems import UserError
from agent_sandbox.proxy.reload.source_pin import SourcePin


def load(path: Path) -> Policy:
    return replace(Policy.deny_all(""), digest=path.read_text())


class Host:
    """A folder with a policy, which can be replaced."""

    def __init__(self, root: Path) -> None:
        self.file = root / "policy" / "policy.yaml"
        self.memory = root / "state" / "folder.json"
        self.file.parent.mkdir()
        self.file.write_text("first")
        self.kept: list[Path] = []

    def replace(self, text: str) -> None:
        """Put another folder in its place; the old one stays mounted, so its number is not given away."""
        self.kept.append(self.file.parent.rename(self.file.parent.with_name(f"old-{len(self.kept)}")))
        self.file.parent.mkdir()
        self.file.write_text(text)

    def start(self, container: str = "a") -> str:
        """Start the proxy of a container, and return the policy that it takes."""
        return SourcePin(load=load, memory=self.memory, container=container).take(self.file).digest


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


REFUSED = (
    "its directory was replaced on the host after the proxy was created, and now has a different policy; "
    "check who wrote it, then run agent-sandbox up to recreate the proxy"
)


def test_another_policy_from_another_folder_is_refused_again_and_again(host: Host) -> None:
    assert host.start() == "first"
    host.replace("second")
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            host.start()
        assert str(caught.value) == f"{host.file}: {REFUSED}"


def test_an_edit_in_its_own_folder_is_taken(host: Host) -> None:
    assert host.start() == "first"
    host.file.write_text("second")
    assert host.start() == "second"


def test_another_folder_with_the_same_policy_becomes_the_pinned_one(host: Host) -> None:
    assert host.start() == "first"
    host.replace("first")
    assert host.start() == "first"
    host.file.write_text("second")
    assert host.start() == "second"


def test_a_container_that_was_made_anew_takes_what_is_there(host: Host) -> None:
    assert host.start() == "first"
    host.replace("second")
    assert host.start("b") == "second"


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_a_memory_that_cannot_be_read_is_none(host: Host, text: str) -> None:
    host.memory.parent.mkdir()
    host.memory.write_text(text)
    assert host.start() == "first"


def test_what_cannot_be_remembered_leaves_what_was(host: Host) -> None:
    assert host.start() == "first"
    host.memory.with_suffix(".new").mkdir()
    host.file.write_text("second")
    assert host.start() == "second"
    host.replace("third")
    with pytest.raises(UserError):
        host.start()
