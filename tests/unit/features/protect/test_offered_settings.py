"""Settings that the agent tried to save in the repository: only harmless ones are offered, and saved as shown."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agent_sandbox.features.protect.offered_settings import BASE, KEPT, Offer, find_offer, forget_offer, save_offer
from agent_sandbox.features.protect.snapshot import record, recorded, settings_replaced
from agent_sandbox.host.git.git_config import UNREADABLE, settings_of
from agent_sandbox.problems import UserError
from table_tests import each

CONFIG = ".git/config"
ORIGIN = '[remote "origin"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
FORK = '[remote "fork"]\n\turl = git@example.com:me/x.git\n\tfetch = +refs/heads/*:refs/remotes/fork/*\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with a repository and one remote."""
    root = tmp_path / "app"
    subprocess.run(["git", "init", "--quiet", root], check=True)
    with (root / CONFIG).open("a") as config:
        config.write(ORIGIN)
    return root


def wished(root: Path, text: str | bytes) -> Offer | None:
    """Write the settings that the agent could not save; return the offer."""
    (root / ".git" / KEPT).write_bytes(text if isinstance(text, bytes) else text.encode())
    return find_offer(root)


def keys(settings: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(key for key, _ in settings)


HARMLESS = {
    "[user]\n\tname = Bot\n\temail = bot@example.com\n": ("user.email", "user.name"),
    "[user]\n\tname = Änne # Ö\n": ("user.name",),
    FORK: ("remote.fork.fetch", "remote.fork.url"),
    '[branch "x"]\n\tremote = origin\n\tmerge = refs/heads/x\n': ("branch.x.merge", "branch.x.remote"),
    f'[branch "a"]\nremote = fork\n{FORK}': ("remote.fork.fetch", "remote.fork.url", "branch.a.remote"),
    '[branch "a#b"]\n\tdescription = "; a b "\n': ("branch.a#b.description",),
}


@pytest.mark.parametrize(("text", "expected"), HARMLESS.items())
def test_harmless_settings_are_offered_and_git_reads_them_after_saving(
    root: Path, text: str, expected: tuple[str, ...]
) -> None:
    before = (root / CONFIG).read_text()
    offer = wished(root, text)
    assert offer
    assert (keys(offer.offered), offer.refused) == (expected, ())
    save_offer(root, {"HOME": str(root.parent)}, offer)
    assert (root / CONFIG).read_text() == before + offer.addition
    assert [f"{key}\n{value}" for key, value in offer.offered] == [*settings_of(root / CONFIG)[-len(expected) :]]
    assert (find_offer(root), (root / ".git" / KEPT).exists()) == (None, False)


REFUSED = (
    "[core]\n\thooksPath = /tmp/evil\n",
    "[core]\n\tbare = true\n",
    "[core]\n\tfsmonitor = ./x\n",
    "[alias]\n\tst = !evil\n",
    "[include]\n\tpath = /etc/passwd\n",
    '[includeIf "gitdir:/"]\n\tpath = x\n',
    '[url "https://evil.test/"]\n\tinsteadOf = https://example.com/\n',
    "[user]\n\tsigningkey = x\n",
    "[push]\n\tdefault = upstream\n",
    "[user]\n\tname = -x\n",
    '[user]\n\tname = "a\\"b"\n',
    '[user]\n\tname = "a\\nb"\n',
    "[user]\n\tname = a\\\\b\n",
    "[user]\n\tname = \x1b[2K\n",
    "[user]\n\tname = ann\n\temail = -x\n",
    '[remote "origin"]\n\turl = https://evil.test/\n',
    '[remote "origin"]\n\tpushurl = https://evil.test/\n',
    '[remote "origin"]\n\tfetch = +refs/heads/*:refs/heads/*\n',
    FORK.replace("remotes/fork", "remotes/origin"),
    '[remote "x"]\n\turl = ext::sh -c evil\n',
    '[remote "x"]\n\turl = /tmp/evil\n',
    '[remote "x"]\n\turl = https://example.com/x\n\tuploadpack = evil\n',
    '[remote "x"]\n\turl = https://example.com/x\n\tfetch = +refs/*:refs/*\n',
    '[remote "--upload-pack=evil"]\n\turl = https://example.com/x\n',
    '[remote "x\\"]\\n[alias"]\n\turl = https://example.com/x\n',
    '[branch "x"]\n\tremote = nowhere\n',
    '[branch "x"]\n\tremote = /tmp/evil\n',
    '[branch "x"]\n\tmergeoptions = --strategy=evil\n',
)


@each("text", REFUSED)
def test_all_other_settings_are_refused(root: Path, text: str) -> None:
    offer = wished(root, text)
    assert offer
    assert (offer.offered, offer.addition) == ((), "")


def test_a_refused_setting_does_not_keep_others_from_being_offered(root: Path) -> None:
    offer = wished(root, f"[alias]\n\tst = !evil\n{FORK}[user]\n\tname = Bot\n")
    assert offer
    assert (keys(offer.offered), keys(offer.refused)) == (
        ("remote.fork.fetch", "remote.fork.url", "user.name"),
        ("alias.st",),
    )
    save_offer(root, {"HOME": str(root.parent)}, offer)
    left = find_offer(root)
    assert left
    assert (left.offered, left.refused) == ((), (("alias.st", "!evil"),))
    forget_offer(left)
    assert find_offer(root) is None


def test_an_existing_setting_keeps_its_value(root: Path) -> None:
    with (root / CONFIG).open("a") as config:
        config.write("[user]\n\tname = Ann\n")
    offer = wished(root, "[user]\n\tname = Bot\n")
    assert offer
    assert (offer.offered, offer.refused) == ((), (("user.name", "Bot"),))
    assert wished(root, "[user]\n\tname = Ann\n") is None


def test_a_setting_that_the_host_machine_removed_since_the_copy_is_not_offered(root: Path) -> None:
    (root / ".git" / f"{KEPT}{BASE}").write_text("[user]\n\tname = Ann\n")
    offer = wished(root, "[user]\n\tname = Ann\n\temail = ann@example.com\n")
    assert offer
    assert offer.offered == (("user.email", "ann@example.com"),)
    forget_offer(offer)
    assert sorted(path.name for path in (root / ".git").glob("agent-sandbox.*")) == []


def test_what_the_copy_was_made_from_changes_nothing_that_is_refused(root: Path) -> None:
    (root / ".git" / f"{KEPT}{BASE}").write_text("[")
    offer = wished(root, "[")
    assert offer
    assert (offer.offered, offer.refused) == ((), ((UNREADABLE, ""),))


@pytest.mark.parametrize(
    "text", [b"[", b"[user\n", b"[user]\n\tname = \xff\xfe\n", b"\0", b"[user]\n\tname = x\n" + b"#" * (65 << 10)]
)
def test_offers_nothing_from_a_file_that_git_cannot_read(root: Path, text: bytes) -> None:
    offer = wished(root, text)
    assert offer is None or offer.offered == ()


def test_does_not_read_a_link_pipe_or_directory_in_place_of_the_agents_file(root: Path) -> None:
    (root / "elsewhere").write_text("[user]\n\tname = Bot\n")
    for make in ("ln -s ../elsewhere", "mkfifo", "mkdir"):
        subprocess.run(["sh", "-c", f"rm -rf {KEPT}; {make} {KEPT}"], cwd=root / ".git", check=True)
        offer = find_offer(root)
        assert offer
        assert (offer.offered, offer.refused) == ((), ((UNREADABLE, ""),))


def test_offers_nothing_if_the_git_directory_is_a_link(root: Path) -> None:
    (root / ".git").rename(root.parent / "git")
    (root / ".git").symlink_to(root.parent / "git")
    wished(root, "[user]\n\tname = Bot\n")
    offer = find_offer(root)
    assert offer is None or offer.offered == ()


def test_offers_nothing_if_the_settings_have_a_second_hard_link(root: Path) -> None:
    (root / "twin").hardlink_to(root / CONFIG)
    offer = wished(root, FORK)
    assert offer
    assert offer.offered == ()


def test_refuses_to_save_if_the_settings_changed_after_they_were_read(root: Path) -> None:
    offer = wished(root, FORK)
    assert offer
    with (root / CONFIG).open("a") as config:
        config.write("# mine\n")
    before = (root / CONFIG).read_text()
    with pytest.raises(UserError) as raised:
        save_offer(root, {}, offer)
    assert str(raised.value) == f"{root}/.git/config: it changed after it was read: run agent-sandbox review again"
    assert (root / CONFIG).read_text() == before
    (root / CONFIG).unlink()
    (root / CONFIG).symlink_to(root / "elsewhere")
    with pytest.raises(UserError):
        save_offer(root, {}, offer)


def test_a_full_disk_leaves_the_settings_unchanged(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write = (root / CONFIG).read_bytes(), os.write
    offer = wished(root, FORK)
    assert offer
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    with pytest.raises(UserError) as raised:
        save_offer(root, {}, offer)
    assert str(raised.value).startswith(f"{root}/.git/config: cannot be used: no space left on device")
    assert (root / CONFIG).read_bytes() == before


def test_saving_keeps_the_inode_and_adds_no_change_to_review(root: Path) -> None:
    environ = {"HOME": str(root.parent)}
    (root / ".devcontainer").mkdir()
    mounts = [
        {"type": "bind", "source": "..", "target": "/workspace"},
        {"type": "bind", "source": "../.git/config", "target": "/workspace/.git/config", "read_only": True},
    ]
    stack = {"services": {"agent": {"volumes": mounts}}}
    (root / ".devcontainer" / "docker-compose.yml").write_text(json.dumps(stack))
    record(root, environ)
    number, offer = (root / CONFIG).stat().st_ino, wished(root, FORK)
    assert offer
    save_offer(root, environ, offer)
    assert (root / CONFIG).stat().st_ino == number
    assert recorded(root, environ).texts == {CONFIG: (root / CONFIG).read_text()}
    assert settings_replaced(root, environ) == {}


def test_settings_of_a_worktree_are_saved_in_its_repository(root: Path) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    subprocess.run(["git", "-C", root, *who, "commit", "--quiet", "--allow-empty", "--message=x"], check=True)
    subprocess.run(["git", "-C", root, "worktree", "add", "--quiet", "../feature"], check=True)
    (root / ".git" / "worktrees" / "feature" / KEPT).write_text(FORK)
    feature = root.parent / "feature"
    offer = find_offer(feature)
    assert offer
    assert (offer.path, keys(offer.offered)) == (str(root / CONFIG), ("remote.fork.fetch", "remote.fork.url"))
    save_offer(feature, {"HOME": str(root.parent)}, offer)
    assert (root / CONFIG).read_text().endswith(offer.addition)
    assert find_offer(feature) is None


def test_a_project_without_a_repository_has_no_offer(tmp_path: Path) -> None:
    assert find_offer(tmp_path) is None
