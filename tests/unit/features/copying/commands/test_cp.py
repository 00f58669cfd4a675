import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.engines.drivers import load_driver
from agent_sandbox.engines.place import Place
from agent_sandbox.features.copying.commands import cp as module
from agent_sandbox.features.copying.commands.cp import cp, refusal_below
from agent_sandbox.features.copying.tree import Copied
from agent_sandbox.host.command import Command
from agent_sandbox.project.clone_record import new_clone, save_clone
from fake_docker import FakeDocker
from fake_stack import with_containers

FORM = "  hint: write box:PATH for a path in the sandbox, as in agent-sandbox cp box:/tmp/report.html .\n"
LOOK = "look at it, then copy it by name"
GIT = f"git on your machine would run its hooks and programs; {LOOK}"
EDITOR = f"tasks and settings that the editor on the host acts on; {LOOK}"
AGENT = f"hooks, commands, permissions of an agent on the host; {LOOK}"


@pytest.fixture
def running(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake a running stack."""
    assert project.exists()
    return with_containers(docker, agent="healthy")


@pytest.fixture
def box(running: FakeDocker, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace /workspace with a directory, and run the sandbox's end of the copy there."""
    assert running.rules
    folder = tmp_path / "box"
    folder.mkdir()
    commands: list[tuple[str, ...]] = []

    def spawn(place: Place, *argv: str, stdin: bool) -> Command:
        made = load_driver().spawn(place, *argv, stdin=stdin)
        assert (made.argv[-len(argv) :], made.cwd, stdin) == (argv, project, True)
        commands.append(argv)
        return Command(argv=(sys.executable, *argv[1:]), cwd=folder)

    monkeypatch.setattr(module, "driver", lambda: SimpleNamespace(spawn=spawn))
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: str, **options: object) -> tuple[int, str]:
    code = exit_code(lambda: cp(*words, **options))  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert out == ""
    return code, err


def test_copies_in_both_directions(box: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "f").write_text("text")
    assert run(capsys, "f", "box:new") == (0, "copied 1 file (4 B) to box:new\n")
    assert (box / "new").read_text() == "text"
    assert run(capsys, "app-1:new", "back") == (0, "copied 1 file (4 B) to back\n")
    assert (project / "back").read_text() == "text"
    assert run(capsys, f"box:{box}/new", ".", quiet=True) == (0, "")
    assert (project / "new").read_text() == "text"


def test_names_files_that_are_not_copied_and_exits_with_1(
    box: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a/.vscode/tasks.json", "a/.git/config", "a/b"):
        (box / name).parent.mkdir(parents=True, exist_ok=True)
        (box / name).write_text("x")
    (box / "a" / "l\x1b[2J").symlink_to("b")
    look = "; look at it, then copy it by name"
    left = (
        f"not copied: .git: git on your machine would run its hooks and programs{look}\n"
        f"not copied: .vscode: tasks and settings that the editor on the host acts on{look}\n"
    )
    link = "not copied: l\\x1b[2J: symbolic links are not copied\n"
    assert run(capsys, "box:a", "new", quiet=True) == (1, left + link)
    assert run(capsys, "box:a/.", ".", quiet=True) == (1, left + link)
    assert run(capsys, "box:a/.vscode", ".") == (0, "copied 1 file (1 B) to .\n")
    assert (project / ".vscode" / "tasks.json").exists()
    assert not (project / ".git").exists()
    into = f"not copied: b: tasks and settings that the editor on the host acts on{look}\n"
    (box / "only").mkdir()
    (box / "only" / "b").write_text("x")
    assert run(capsys, "box:only/.", ".vscode", quiet=True) == (1, into)
    assert run(capsys, "box:only", ".vscode", quiet=True) == (1, into)
    assert [file.name for file in (project / ".vscode").rglob("*") if file.is_file()] == ["tasks.json"]
    assert run(capsys, "box:only/b", ".vscode", quiet=True) == (0, "")
    # Everything is copied into the sandbox: it protects the project's paths.
    assert run(capsys, "new", "box:c") == (0, "copied 1 file (1 B) to box:c\n")


def test_prints_the_number_of_further_files_that_are_not_copied(capsys: pytest.CaptureFixture[str]) -> None:
    assert module._report(Copied(skipped=[("a", "why")], more=2), "t", quiet=False) == 1
    assert capsys.readouterr().err == "not copied: a: why\nnot copied: 2 more\ncopied 0 files (0 B) to t\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a", "b"), f"error: a b: neither path is in a sandbox\n{FORM}"),
        (("./box:a", ":b"), f"error: ./box:a :b: neither path is in a sandbox\n{FORM}"),
        (("box:a", "x:b"), f"error: box:a x:b: both paths are in a sandbox\n{FORM}"),
        (("box:", "b"), f"error: box:: the path after the colon is missing\n{FORM}"),
        (("box:..", "b"), "error: ..: write the name of this directory\n"),
        (("no\nsuch", "box:b"), "error: no\\x0asuch: no such file or directory\n"),
        (("box:a", "no/such/"), "error: no: no such file or directory\n"),
        (
            ("no:a", "b"),
            (
                "error: no: no trusted stack and no clone of this project has this name\n"
                "  hint: agent-sandbox ls lists the names; box: is the sandbox of this project; ./no: is a file here\n"
            ),
        ),
    ],
)
def test_rejects_invalid_paths_before_calling_docker(
    running: FakeDocker, capsys: pytest.CaptureFixture[str], words: tuple[str, str], said: str
) -> None:
    assert run(capsys, *words) == (1, said)
    assert running.calls == []


@pytest.mark.parametrize("size", ["", "0", "0b", "x", "-1g", "1"])
def test_a_size_needs_a_number_and_a_unit(running: FakeDocker, capsys: pytest.CaptureFixture[str], size: str) -> None:
    said = f"error: --max-size: `{size}` is not a size: a number with k, m or g, as in `20g`\n"
    assert run(capsys, "box:a", "b", max_size=size) == (1, said)
    assert running.calls == []


def test_finds_a_clone_of_the_project_by_its_name(
    running: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running.rules
    save_clone(clone := new_clone(project, "fix-1", os.environ, title="app"))
    opened: list[Path | None] = []
    monkeypatch.setattr(module, "open_known", lambda path, **_options: opened.append(path))
    monkeypatch.setattr(module, "require_agent", lambda _project: None)
    module._running("fix-1", None)
    assert opened == [clone.root]


def test_rejects_the_path_option_with_a_stack_name(
    running: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"error: --path: cannot be combined with app-1:\n{FORM}"
    assert run(capsys, "app-1:a", "b", path=project) == (1, said)
    assert running.calls == []


def test_stops_copying_at_the_limit(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (box / "f").write_text("x" * 2000)
    code, said = run(capsys, "box:f", "new", max_size="1k")
    assert code == 1
    assert said == (
        "error: in the sandbox: stopped at the limit of 1024 bytes\n"
        "  hint: --max-size raises the limit; files that were already copied stay\n"
    )


def test_prints_an_error_from_the_sandbox_as_one_escaped_line(
    running: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answer = """print('{"error": "no\\\\n  hint: run \\\\u001b[2J"}')"""
    command = Command(argv=(sys.executable, "-I", "-c", answer))
    monkeypatch.setattr(module, "driver", lambda: SimpleNamespace(spawn=lambda *_, **_options: command))
    (tmp_path / "f").touch()
    assert run(capsys, "f", "box:g") == (1, "error: in the sandbox: no hint: run \\x1b[2J\n")
    assert running.rules


def test_needs_a_running_stack(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    with_containers(docker)
    assert run(capsys, "box:a", "b") == (1, "error: app-1: the stack is not running\n  hint: agent-sandbox up\n")


@pytest.fixture
def stacked(tmp_path: Path) -> Path:
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


def test_in_a_project_also_refuses_its_protected_paths(stacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (stacked / "src").mkdir()
    assert refusal_below(stacked, ".")((".vscode",)) == EDITOR
    assert refusal_below(stacked, "src")((".vscode",)) == EDITOR
    # The name `.agents` has a meaning, even if the copied directory has a harmless one.
    for folder, name in ((stacked, ".agents"), (stacked / "src", ".agents"), (stacked.parent, ".agents")):
        assert refusal_below(folder, name)(("plugins",)) == AGENT
    monkeypatch.chdir(stacked / ".devcontainer")
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
def test_leaves_out_of_a_directory_what_it_would_leave_out_from_above(stacked: Path, folder: str, why: str) -> None:
    (stacked / "bare.git" / "objects").mkdir(parents=True)
    (stacked / "bare.git" / "HEAD").touch()
    (stacked / folder).mkdir(parents=True, exist_ok=True)
    for name in (".", "x"):
        assert refusal_below(stacked / folder, name)(("a",)) == why


def test_leaves_out_at_any_depth_what_a_shell_acts_on_in_every_directory(stacked: Path) -> None:
    refusal = refusal_below(stacked, ".")
    for name in (".envrc", ".envrc.local", "mise.toml", ".mise.toml", ".tool-versions", ".rvmrc", ".shadowenv.d"):
        assert refusal(("sub", "deep", name)).endswith(LOOK), name
    assert refusal(("sub", ".config", "mise.toml")).startswith("may run when a shell on the host enters the directory")
    assert refusal(("sub", "config.toml")) == ""


def test_allows_what_the_user_names(stacked: Path) -> None:
    # `agent-sandbox cp box:/tmp/x/.vscode .`, and with another name for the copy.
    assert refusal_below(stacked, ".vscode")(("tasks.json",)) == ""
    assert refusal_below(stacked, ".githooks")(("pre-commit",)) == ""


def test_a_project_in_a_directory_that_programs_act_on_can_be_copied_to(tmp_path: Path) -> None:
    project = tmp_path / ".vscode" / "extensions" / "mine"
    (project / ".devcontainer").mkdir(parents=True)
    (project / ".devcontainer" / "docker-compose.yml").touch()
    assert refusal_below(project, ".")(("a",)) == ""
