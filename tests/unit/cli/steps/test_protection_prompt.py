from pathlib import Path

import pytest

from fake_tty import Person
from run_cli import Ask

COMPOSE = ".devcontainer/docker-compose.yml"
QUESTION = "Let the agent write this from now on? [y/N] "
KEPT = f"Protected so far, but this search found no reference to:\n  tools/hooks\n{QUESTION}"
LOST = f"Protected so far, but now a link or a pipe, which cannot be protected:\n  .vscode\n{QUESTION}"
NEXT = "\nNext:\n  agent-sandbox up               # applies the changes to the stack\n"
STILL = "note: tools/hooks: still protected, though this search found no reference to it\n"


@pytest.fixture
def kept(empty_project: Path, ask: Ask) -> Path:
    """Make a project whose directory of hooks is protected, though nothing names it any more."""
    (empty_project / "tools" / "hooks").mkdir(parents=True)
    git = empty_project / ".git"
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n\thooksPath = tools/hooks\n")
    ask("init", "claude")
    (git / "config").write_text("")
    return empty_project


@pytest.fixture
def lost(empty_project: Path, ask: Ask) -> Path:
    """Make a project in which something that was protected is a link now."""
    (empty_project / ".vscode").mkdir()
    ask("init", "claude")
    (empty_project / ".vscode").rmdir()
    (empty_project / ".vscode").symlink_to("elsewhere")
    return empty_project


def is_mounted(project: Path, path: str) -> bool:
    return f"/workspace/{path}," in (project / COMPOSE).read_text()


@pytest.mark.parametrize("answer", ["", "n\n", "no\n", "\n", "yess\n"])
def test_a_path_stays_protected_unless_the_user_agrees(
    kept: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", Person(answer))
    asked = ask("init", "claude")
    assert (asked.code, asked.err, is_mounted(kept, "tools/hooks")) == (0, KEPT + STILL + NEXT, True)


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_a_path_is_no_longer_protected_after_the_user_agrees(
    kept: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", Person(answer))
    asked = ask("init", "claude")
    assert asked.code == 0
    assert asked.err.startswith(
        f"{KEPT}note: tools/hooks: no longer protected: the agent can write it after the next start\n"
    )
    assert not is_mounted(kept, "tools/hooks")


@pytest.mark.parametrize("option", ["--json", "--dry-run"])
def test_does_not_ask_with_json_or_dry_run(kept: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr("sys.stdin", Person("y\n"))
    asked = ask("init", "claude", option)
    assert (asked.code, QUESTION in asked.err, is_mounted(kept, "tools/hooks")) == (0, False, True)


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_keeps_protected_paths_without_a_terminal(kept: Path, ask: Ask, force: tuple[str, ...]) -> None:
    asked = ask("init", "claude", *force)
    assert (asked.code, asked.err, is_mounted(kept, "tools/hooks")) == (0, STILL + NEXT, True)


def test_an_incomplete_search_asks_nothing_and_keeps_protected_paths(
    kept: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Person("y\n"))
    monkeypatch.setattr("agent_sandbox.runtime.git.repositories.MAX_FOLDERS", 2)
    asked = ask("init", "claude")
    assert (asked.code, QUESTION in asked.err, is_mounted(kept, "tools/hooks")) == (0, False, True)
    assert "not searched for repositories" in asked.err


def test_fails_without_a_terminal_if_a_path_can_no_longer_be_protected(lost: Path, ask: Ask) -> None:
    before = (lost / COMPOSE).read_text()
    asked = ask("init", "claude", "--force")
    assert (asked.code, (lost / COMPOSE).read_text()) == (1, before)
    assert asked.err == (
        "error: .vscode: was protected and is now a link or a pipe, which cannot be protected\n"
        "  hint: replace it with a file or a directory, or remove it; "
        "or run agent-sandbox init at a terminal and confirm\n"
    )


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_asks_if_a_path_can_no_longer_be_protected(
    lost: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin", Person(answer))
    asked = ask("init", "claude")
    assert (asked.code, asked.err.startswith(LOST), is_mounted(lost, ".vscode")) == (code, True, code == 1)
