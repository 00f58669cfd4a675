import errno
from dataclasses import replace
from pathlib import Path

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policy.compiler.codec import NotEncodableError
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.reload import source_pin as subject
from agent_sandbox.proxy.reload.source_pin import SourcePin


def load(path: Path) -> Policy:
    text = path.read_text()
    if text == "invalid":
        raise UserError([Problem(where=str(path), what="not valid", hint="")])
    settings = {"reload": "watch"} if text.startswith("watch") else {}
    return replace(Policy.of(RuleSet(settings=settings)), digest=text)


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

    def start(self, container: str = "a", *, boot: str = "1", stops: bool = True) -> str:
        """Start the proxy of a container, and return the policy that it loads; stop it, or kill it."""
        self.pin = SourcePin(load=load, memory=self.memory, container=container, boot=boot)
        digest = self.pin.take(self.file).digest
        if stops:
            self.pin.stop()
        return digest


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
        host.pin.stop()


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


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no new file be written."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(subject, "write_file", fail)


def test_on_a_full_disk_neither_the_older_policy_nor_a_changed_one_comes_back(
    host: Host, request: pytest.FixtureRequest
) -> None:
    assert host.start(stops=False) == "first"
    request.getfixturevalue("full_disk")
    host.file.write_text("second")
    assert host.pin.take(host.file).digest == "second"
    assert host.start(stops=False) == "second"
    host.file.write_text("third")
    with pytest.raises(UserError, match="the policy from before could not be kept"):
        host.start()


def test_a_stop_before_the_disk_was_full_does_not_count_for_a_later_start(
    host: Host, request: pytest.FixtureRequest
) -> None:
    assert host.start() == "first"
    request.getfixturevalue("full_disk")
    assert host.start(stops=False) == "first"
    host.file.write_text("second")
    with pytest.raises(UserError, match="the policy from before could not be kept"):
        host.start()


@pytest.mark.usefixtures("full_disk")
def test_denies_everything_if_the_policy_cannot_be_kept_at_all(host: Host) -> None:
    with pytest.raises(UserError) as caught:
        host.start()
    assert str(caught.value) == (
        f"{host.file}: it cannot be kept for the next start: No such file or directory; "
        "free disk space, then agent-sandbox proxy reload"
    )


def test_a_restart_that_nobody_asked_for_keeps_the_policy_in_force(host: Host) -> None:
    assert host.start(stops=False) == "first"
    for text in ("second", "invalid", "third"):
        host.file.write_text(text)
        assert (host.start(stops=False), host.pin.held_back) == ("first", True)
    assert (host.pin.take(host.file).digest, host.pin.held_back) == ("third", False)
    assert (host.start(stops=False), host.pin.held_back) == ("third", False)


def test_a_restart_with_the_machine_keeps_the_policy_in_force(host: Host) -> None:
    assert host.start() == "first"
    host.file.write_text("second")
    assert host.start(boot="2") == "first"
    assert host.start(boot="2") == "second"


def test_a_restart_by_hand_with_an_invalid_file_does_not_make_the_next_one_by_hand(host: Host) -> None:
    assert host.start() == "first"
    host.file.write_text("invalid")
    with pytest.raises(UserError):
        host.start()
    host.file.write_text("second")
    assert host.start() == "first"


def test_a_restart_of_its_own_keeps_the_policy_of_a_replaced_folder(host: Host) -> None:
    assert host.start(stops=False) == "first"
    host.replace("second")
    assert host.start(stops=False) == "first"
    with pytest.raises(UserError):
        host.pin.take(host.file)


def test_a_policy_that_reloads_by_itself_is_not_held_back(host: Host) -> None:
    host.file.write_text("watch 1")
    assert host.start(stops=False) == "watch 1"
    host.file.write_text("watch 2")
    assert (host.start(stops=False), host.pin.held_back) == ("watch 2", False)


def test_denies_everything_if_the_policy_in_force_was_not_kept(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Policy) -> None:
        raise NotEncodableError

    monkeypatch.setattr(subject, "encode_policy", refuse)
    assert host.start(stops=False) == "first"
    assert host.start(stops=False) == "first"
    host.file.write_text("second")
    with pytest.raises(UserError) as caught:
        host.start(stops=False)
    assert str(caught.value) == (
        f"{host.file}: it has changed, the proxy restarted by itself, and the policy from before could not be kept; "
        "agent-sandbox proxy reload"
    )
    assert host.pin.take(host.file).digest == "second"
