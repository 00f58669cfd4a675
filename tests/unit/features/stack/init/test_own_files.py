import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.stack.init.initialise import prepare
from agent_sandbox.features.stack.init.own_files import as_listed, remove_ours, without_ours
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import find_project
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, IGNORE, POLICY, PROJECT_FILE, STACK, VALUES
from init_project import init_options

SERVICE = ".devcontainer/services/node.yaml"


def tree(project: Path) -> dict[str, str]:
    """Return the text of each file, and each directory, but git's own."""
    found = (path for path in project.rglob("*") if ".git" not in path.parts or path.name == "exclude")
    return {str(path.relative_to(project)): path.read_text() if path.is_file() else "/" for path in found}


def undo(project: Path) -> set[str]:
    """Remove what is ours; return the paths."""
    found = find_project(project, cwd=project)
    left = without_ours(found)
    remove_ours(found, left)
    return set(left)


@pytest.mark.parametrize("gitignore", [True, False])
@pytest.mark.parametrize(
    "before", [{}, {DOTENV: "# mine\nA=1\n", ".gitignore": "*.log\n", ".vscode/settings.json": "{}\n"}]
)
def test_a_project_is_what_it_was_before_init(tmp_path: Path, before: dict[str, str], *, gitignore: bool) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for path, text in before.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    then = tree(tmp_path)
    prepare(replace(init_options(tmp_path), gitignore=gitignore, packages=("make",)), {}).write()
    (tmp_path / POLICY).write_text("version: 1\n# edited\n")
    (tmp_path / SERVICE).parent.mkdir()
    (tmp_path / SERVICE).write_text("# Written by agent-sandbox.\n# agent-sandbox-digest: sha256:" + "0" * 64 + "\n")
    assert {POLICY, PROJECT_FILE, SERVICE} <= undo(tmp_path)
    assert tree(tmp_path) == then


def test_what_others_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / DEVCONTAINER).write_text('{"name": "mine"}\n')
    (tmp_path / ".devcontainer" / "notes").write_text("x")
    prepare(init_options(tmp_path), {}).write()
    extended = (tmp_path / DEVCONTAINER).read_text()
    undo(tmp_path)
    assert tree(tmp_path) == {".devcontainer": "/", DEVCONTAINER: extended, ".devcontainer/notes": "x"}


def test_git_goes_on_ignoring_values_that_the_user_added(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    prepare(init_options(tmp_path), {}).write()
    with (tmp_path / DOTENV).open("a") as file:
        file.write("KEY=secret\n")
    undo(tmp_path)
    assert (tmp_path / DOTENV).read_text() == "KEY=secret\n"
    assert subprocess.run(["git", "check-ignore", "--quiet", DOTENV], cwd=tmp_path, check=False).returncode == 0


def test_git_goes_on_ignoring_the_values_of_a_clone_that_the_user_added(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    prepare(init_options(tmp_path), {}).write()
    with (tmp_path / VALUES).open("a") as file:
        file.write("KEY=secret\n")
    assert IGNORE not in undo(tmp_path)
    assert (tmp_path / VALUES).read_text() == "KEY=secret\n"
    assert subprocess.run(["git", "check-ignore", "--quiet", VALUES], cwd=tmp_path, check=False).returncode == 0


def test_the_list_says_what_is_not_only_ours(tmp_path: Path) -> None:
    prepare(init_options(tmp_path), {}).write()
    for path in (DEVCONTAINER, DOTENV):
        with (tmp_path / path).open("a") as file:
            file.write("// A=1\n" if path == DEVCONTAINER else "A=1\n")
    name = ".devcontainer/services/\x1b[2J.yaml"
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text((tmp_path / STACK).read_text())
    found = find_project(tmp_path, cwd=tmp_path)
    listed = as_listed(found, without_ours(found))
    assert {f"{DEVCONTAINER} (edited)", f"{DOTENV} (in part)", STACK} <= set(listed)
    assert ".devcontainer/services/\\x1b[2J.yaml" in listed


def test_a_second_try_finds_what_the_first_could_not_remove(tmp_path: Path) -> None:
    prepare(init_options(tmp_path), {}).write()
    found = find_project(tmp_path, cwd=tmp_path)
    left = without_ours(found)
    (tmp_path / DEVCONTAINER).unlink()
    (tmp_path / DEVCONTAINER).mkdir()
    with pytest.raises(UserError, match=r"devcontainer\.json: cannot be used"):
        remove_ours(found, left)
    (tmp_path / DEVCONTAINER).rmdir()
    undo(tmp_path)
    assert tree(tmp_path) == {}


def test_a_linked_repository_is_left_as_it_is(tmp_path: Path) -> None:
    (project := tmp_path / "app").mkdir()
    subprocess.run(["git", "init", "--quiet", tmp_path / "other"], check=True)
    (project / ".git").symlink_to("../other/.git")
    prepare(init_options(project), {}).write()
    undo(project)
    assert [one.name for one in project.iterdir()] == [".git"]


def test_a_link_in_place_of_a_file_removes_nothing(tmp_path: Path) -> None:
    """The agent could have made it."""
    outside = tmp_path / "outside"
    outside.write_text("x")
    (project := tmp_path / "app").mkdir()
    prepare(init_options(project), {}).write()
    (project / DOTENV).unlink()
    (project / DOTENV).symlink_to(outside)
    then = tree(project / ".devcontainer")
    with pytest.raises(UserError, match="does not follow symbolic links"):
        undo(project)
    assert (tree(project / ".devcontainer"), outside.read_text()) == (then, "x")
