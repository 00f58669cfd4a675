from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.stack import write_stack as module
from agent_sandbox.features.stack.init.initialise import InitOptions, Prepared, prepare
from agent_sandbox.features.stack.write_stack import orphaned_stack, write_stack
from agent_sandbox.project.render.paths import STACK
from agent_sandbox.project.trust_snapshot import Standing, look
from fake_tty import Person
from init_project import init_options
from run_cli import Ask

REMAIN = (
    "if it ever ran, its containers and volumes (with sign-in and history) remain until: "
    "cd / && docker compose --project-name {} down --volumes"
)
COMPOSE = ".devcontainer/docker-compose.yml"
QUESTION = "Let the agent write this from now on? [y/N] "
KEPT = f"Protected so far, but this search found no reference to:\n  tools/hooks\n{QUESTION}"
LOST = f"Protected so far, but now a link or a pipe, which cannot be protected:\n  .vscode\n{QUESTION}"
NEXT = "\nNext:\n  agent-sandbox up               # applies the changes to the stack\n"
STILL = "note: tools/hooks: still protected, though this search found no reference to it\n"


def test_asks_only_with_ask_and_if_there_are_changes(empty_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish, asked = init_options(empty_project), list[Prepared]()

    def settle(_: InitOptions, prepared: Prepared) -> Prepared:
        asked.append(prepared)
        return prepared

    def with_kept(options: InitOptions, environ: Mapping[str, str]) -> Prepared:
        made = prepare(options, environ)
        return replace(made, protection=replace(made.protection, kept=("f",)))

    monkeypatch.setattr(module, "settle", settle)
    write_stack(wish)
    monkeypatch.setattr(module, "prepare", with_kept)
    write_stack(wish, ask=False)
    assert asked == []
    write_stack(wish)
    assert len(asked) == 1


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Standing]:
    """Return a project that `init` has been run in, and what was trusted there."""
    project = tmp_path / "app"
    project.mkdir()
    prepared = prepare(init_options(project), {})
    prepared.write()
    return project, look(project, {})


def name_in(trusted: Standing) -> str:
    return next(line.removeprefix("name: ") for line in trusted.files[STACK].splitlines() if line.startswith("name:"))


def test_reports_nothing_for_a_new_or_unchanged_project(tmp_path: Path, made: tuple[Path, Standing]) -> None:
    project, trusted = made
    (tmp_path / "new").mkdir()
    for path in (tmp_path / "new", project):
        assert [*orphaned_stack(prepare(init_options(path), {}), [trusted])] == []


def test_reports_the_former_stack_after_the_stack_is_renamed(made: tuple[Path, Standing]) -> None:
    project, trusted = made
    former = name_in(trusted)
    (note,) = orphaned_stack(prepare(init_options(project, title="other"), {}), [trusted])
    assert note == f"the stack was named {former}: {REMAIN.format(former)}"


def test_reports_the_former_stack_of_a_moved_project_but_not_of_a_copy_or_clone(made: tuple[Path, Standing]) -> None:
    project, trusted = made
    former, moved = name_in(trusted), project.with_name("moved")
    project.rename(moved)
    (note,) = orphaned_stack(prepare(init_options(moved), {}), [trusted])
    assert note == f"the project was in {project}, and its stack was {former}: {REMAIN.format(former)}"
    assert [*orphaned_stack(prepare(init_options(moved), {}), [])] == []
    assert [*orphaned_stack(prepare(init_options(moved), {}), [replace(trusted, files={})])] == []
    project.mkdir()
    assert [*orphaned_stack(prepare(init_options(moved), {}), [trusted])] == []


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
    monkeypatch.setattr("agent_sandbox.host.git.repositories.MAX_FOLDERS", 2)
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
