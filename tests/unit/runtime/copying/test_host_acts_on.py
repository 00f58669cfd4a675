from pathlib import Path

import pytest

from agent_sandbox.runtime.copying.host_acts_on import refusal_below

GIT = "git on your machine would run its hooks and programs; look at it, then copy it by name"
EDITOR = "tasks and settings that the editor on the host acts on; look at it, then copy it by name"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a stack."""
    (tmp_path / "project" / ".devcontainer").mkdir(parents=True)
    (tmp_path / "project" / ".devcontainer" / "docker-compose.yml").touch()
    return tmp_path / "project"


def test_refuses_paths_that_programs_on_the_host_machine_act_on_in_any_directory(tmp_path: Path) -> None:
    refusal = refusal_below(tmp_path / "new")
    for parts, why in {
        (".git",): GIT,
        ("a", "b", ".GIT"): GIT,
        (".g\u200bit",): GIT,
        ("git~1",): GIT,
        ("a", ".git. "): GIT,
        (".git::$INDEX_ALLOCATION",): GIT,
        ("bare", "HEAD"): GIT,
        (".vscode.",): EDITOR,
        (".vscode",): EDITOR,
        (".VSCode",): EDITOR,
        ("Makefile",): "",
        (".gitignore",): "",
        ("HEAD.md",): "",
        ("a", ".vscode"): "",  # editors read `.vscode` only in the directory that they open
    }.items():
        assert refusal(parts) == why, parts
    assert refusal((".envrc",)).startswith("runs when a shell on the host enters the directory")
    assert refusal((".claude", "settings.json")).endswith("look at it, then copy it by name")


def test_in_a_project_also_refuses_its_protected_paths(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal_below(project)((".vscode",)) == EDITOR
    assert refusal_below(project / "src")((".vscode",)) == EDITOR
    # The target `.agents` has a meaning, even if the copied directory has a harmless name.
    assert refusal_below(project / ".agents")(("plugins",)).startswith("hooks, commands, permissions of an agent")
    assert refusal_below(project / "src" / ".agents")(("plugins",)) == ""
    monkeypatch.chdir(project / ".devcontainer")
    assert refusal_below(Path("../.Agents"))(("plugins",)).startswith("hooks, commands, permissions of an agent")
    assert refusal_below(project.parent / ".agents")(("plugins",)) == ""


def test_allows_paths_below_a_directory_that_the_user_named(project: Path) -> None:
    # `agent-sandbox cp box:/tmp/x .vscode/x`: the user chose that directory.
    assert refusal_below(project / ".vscode" / "x")(("a",)) == ""
