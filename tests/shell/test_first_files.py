"""first_files.sh: initial settings of agents are copied unless the user has such a file."""

from pathlib import Path

import pytest

from bash_harness import Shell


@pytest.fixture
def shipped(tmp_path: Path, shell: Shell) -> Shell:
    """A shell in an image of two agents, each with a file for the home directory."""
    for agent, name in (("one", ".agent/settings.json"), ("other", ".config/agent/a b.toml")):
        file = tmp_path / "agents" / agent / "home" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"shipped {name}")
        file.chmod(0o444)
    return shell.within(AGENT_SANDBOX_AGENTS=str(tmp_path / "agents"))


def start(shell: Shell) -> tuple[int, str]:
    done = shell("messages first_files", "copy_first_files", check=False)
    return done.returncode, done.stderr


def test_copies_files_and_makes_them_writable(shipped: Shell) -> None:
    assert start(shipped) == (0, "")
    for name in (".agent/settings.json", ".config/agent/a b.toml"):
        file = shipped.home / name
        assert file.read_text() == f"shipped {name}"
        assert file.stat().st_mode & 0o600 == 0o600


def test_keeps_the_users_files_and_dangling_links(shipped: Shell) -> None:
    for folder in (".agent", ".config/agent"):
        (shipped.home / folder).mkdir(parents=True)
    (shipped.home / ".agent" / "settings.json").write_text("mine")
    (shipped.home / ".config" / "agent" / "a b.toml").symlink_to("/elsewhere/nothing")
    assert start(shipped) == (0, "")
    assert (shipped.home / ".agent" / "settings.json").read_text() == "mine"
    assert (shipped.home / ".config" / "agent" / "a b.toml").is_symlink()


def test_copies_the_other_files_if_one_cannot_be_copied(shipped: Shell) -> None:
    (shipped.home / ".agent").write_text("a file where a directory should be")
    code, said = start(shipped)
    assert code == 1
    assert "File exists" in said
    assert (shipped.home / ".config" / "agent" / "a b.toml").exists()


def test_copies_nothing_from_an_image_without_such_files(shell: Shell, tmp_path: Path) -> None:
    assert start(shell.within(AGENT_SANDBOX_AGENTS=str(tmp_path / "nothing"))) == (0, "")
    assert list(shell.home.iterdir()) == []
