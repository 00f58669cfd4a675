from pathlib import Path

import pytest

from agent_sandbox.runtime.copying.host_acts_on import refusal_below

LOOK = "look at it, then copy it by name"
GIT = f"git on your machine would run its hooks and programs; {LOOK}"
EDITOR = f"tasks and settings that the editor on the host acts on; {LOOK}"
AGENT = f"hooks, commands, permissions of an agent on the host; {LOOK}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a stack."""
    (tmp_path / "project" / ".devcontainer").mkdir(parents=True)
    (tmp_path / "project" / ".devcontainer" / "docker-compose.yml").touch()
    return tmp_path / "project"


def test_refuses_paths_that_programs_on_the_host_machine_act_on_in_any_directory(tmp_path: Path) -> None:
    refusal = refusal_below(tmp_path, "new")
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
    (project / "src").mkdir()
    assert refusal_below(project, ".")((".vscode",)) == EDITOR
    assert refusal_below(project, "src")((".vscode",)) == EDITOR
    # The name `.agents` has a meaning, even if the copied directory has a harmless one.
    for folder, name in ((project, ".agents"), (project / "src", ".agents"), (project.parent, ".agents")):
        assert refusal_below(folder, name)(("plugins",)) == AGENT
    monkeypatch.chdir(project / ".devcontainer")
    assert refusal_below(Path(".."), ".Agents")(("plugins",)) == AGENT


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        (".vscode", EDITOR),
        (".VSCode/deep", EDITOR),
        ("src/.vscode", EDITOR),  # from `src`, it is left out, too
        (".devcontainer", f"the sandbox itself: compose file, policy, editor settings; {LOOK}"),
        (".devcontainer/services", f"the sandbox itself: compose file, policy, editor settings; {LOOK}"),
        (".git/hooks", GIT),
        (".GIT", GIT),
        ("sub/.git/info", GIT),
        ("bare.git", GIT),
        ("bare.git/hooks", GIT),
        (".agents/plugins/a", AGENT),
        (".husky/_", f"programs that git on the host runs, in projects that use husky; {LOOK}"),
        (".vscodes", ""),
        ("src", ""),
        (".", ""),
    ],
)
def test_leaves_out_of_a_directory_what_it_would_leave_out_from_above(project: Path, folder: str, why: str) -> None:
    (project / "bare.git" / "objects").mkdir(parents=True)
    (project / "bare.git" / "HEAD").touch()
    (project / folder).mkdir(parents=True, exist_ok=True)
    for name in (".", "x"):
        assert refusal_below(project / folder, name)(("a",)) == why


def test_leaves_out_at_any_depth_what_a_shell_acts_on_in_every_directory(project: Path) -> None:
    refusal = refusal_below(project, ".")
    for name in (".envrc", ".envrc.local", "mise.toml", ".mise.toml", ".tool-versions", ".rvmrc", ".shadowenv.d"):
        assert refusal(("sub", "deep", name)).endswith(LOOK), name
    assert refusal(("sub", ".config", "mise.toml")).startswith("may run when a shell on the host enters the directory")
    assert refusal(("sub", "config.toml")) == ""


def test_allows_what_the_user_names(project: Path) -> None:
    # `agent-sandbox cp box:/tmp/x/.vscode .`, and with another name for the copy.
    assert refusal_below(project, ".vscode")(("tasks.json",)) == ""
    assert refusal_below(project, ".githooks")(("pre-commit",)) == ""


def test_a_project_in_a_directory_that_programs_act_on_can_be_copied_to(tmp_path: Path) -> None:
    project = tmp_path / ".vscode" / "extensions" / "mine"
    (project / ".devcontainer").mkdir(parents=True)
    (project / ".devcontainer" / "docker-compose.yml").touch()
    assert refusal_below(project, ".")(("a",)) == ""
