import re
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import (
    all_clones,
    clone_at,
    clone_named,
    clones_of,
    forget_clone,
    new_clone,
    path_option,
    require_name,
    save_clone,
)
from agent_sandbox.stack.naming import stack_name
from table_tests import each


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_saved_clone_is_found_by_its_name_its_project_and_its_directory(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    first = new_clone(tmp_path, "", environ, title="app")
    assert (first.name, first.title, first.references) == ("clone-1", "app-clone-1", "refs/remotes/box/clone-1/")
    assert clone_named(tmp_path, "clone-1", environ) is None
    save_clone(first)
    second = new_clone(tmp_path, "", environ, title="app")
    save_clone(second)
    assert second.name == "clone-2"
    fetched = {"clone-1", "clone-3", "clone-5"}  # of clones that may be gone
    assert new_clone(tmp_path, "", environ, title="app", fetched=fetched).name == "clone-4"
    assert clone_named(tmp_path, "clone-1", environ) == clone_at(first.root, environ) == first
    assert clones_of(tmp_path, environ) == all_clones(environ) == (first, second)
    assert clones_of(tmp_path / "other", environ) == ()


def test_path_option_names_the_project_or_clone_as_seen_from_the_current_directory(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    project, elsewhere = tmp_path / "my app", tmp_path / "other"
    for folder in (project, elsewhere):
        (folder / ".devcontainer").mkdir(parents=True)
        (folder / ".devcontainer" / "docker-compose.yml").touch()
    clone = new_clone(project, "fix-1", environ, title="app")
    save_clone(clone)
    stack = stack_name("app-fix-1", str(clone.root))
    options = {
        (root, cwd): path_option(root, environ, cwd=cwd)
        for root in (project, clone.root)
        for cwd in (project / "src", elsewhere, tmp_path)
    }
    assert options == {
        (project, project / "src"): "",
        (project, elsewhere): f" --path '{project}'",
        (project, tmp_path): f" --path '{project}'",
        (clone.root, project / "src"): " --path fix-1",
        (clone.root, elsewhere): f" --path {stack}",
        (clone.root, tmp_path): f" --path {stack}",
    }


def test_path_option_uses_the_full_path_if_another_file_has_the_name_of_the_clone(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").touch()
    clone = new_clone(tmp_path, "fix-1", environ, title="app")
    save_clone(clone)
    assert path_option(clone.root, environ, cwd=tmp_path) == " --path fix-1"
    (tmp_path / "fix-1").symlink_to("nowhere")
    assert path_option(clone.root, environ, cwd=tmp_path) == f" --path {clone.root}"


def test_a_forgotten_clone_leaves_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    clone = new_clone(tmp_path, "fix-1", environ, title="app")
    save_clone(clone)
    (clone.root / "file").write_text("")
    forget_clone(clone)
    assert (clone_named(tmp_path, "fix-1", environ), clone_at(clone.root, environ)) == (None, None)
    assert not clone.root.parent.exists()


def test_a_directory_of_the_host_machine_is_not_a_clone(tmp_path: Path, environ: dict[str, str]) -> None:
    assert clone_at(tmp_path, environ) is None
    assert all_clones(environ) == ()


@each("name", ["", "Fix", "a/b", "..", "-a", "a-", "a--b", "a.lock", "a b", "ö", "a" * 31, "../x"])
def test_rejects_invalid_clone_names(name: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"--name: `{name}` cannot be the name of a clone")):
        require_name(name)


def test_accepts_common_clone_names() -> None:
    for name in ("fix-1", "a", "issue-123", "2"):
        require_name(name)


@each("text", ["", "{", "[]", '{"project": "/x"}', '{"project": "/x", "title": "x", "started": []}'])
def test_reports_a_damaged_record_with_its_path(tmp_path: Path, environ: dict[str, str], text: str) -> None:
    place = new_clone(tmp_path, "", environ, title="app")
    save_clone(place)
    place.root.with_name("clone-1.json").write_text(text)
    with pytest.raises(UserError, match=r"clone-1\.json: the record of this clone is damaged"):
        clones_of(tmp_path, environ)
    place.root.with_name("clone-1.json").unlink()
