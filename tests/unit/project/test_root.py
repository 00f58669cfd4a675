import os
from pathlib import Path

import pytest

from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.project.render.paths import SHARED, VALUES
from agent_sandbox.project.root import STACK_FILE, find_root, has_files, lacks_clone_files
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import open_store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project_at(tmp_path / "app")


def project_at(root: Path) -> Path:
    (root / STACK_FILE).parent.mkdir(parents=True)
    (root / STACK_FILE).write_text("services: {}")
    return root


def test_returns_the_named_directory_even_if_it_does_not_exist(root: Path) -> None:
    assert find_root(root / "x", cwd=root) == root / "x"


def test_finds_the_project_that_contains_the_current_directory(root: Path) -> None:
    assert find_root(None, cwd=root / "src") == root
    assert find_root(None, cwd=root.parent) is None


def test_finds_the_outermost_project_unless_a_nested_project_is_trusted(root: Path) -> None:
    nested = project_at(root / "vendor" / "lib")
    assert find_root(None, cwd=nested / "src") == root
    open_store(os.environ).save(look(nested, os.environ))
    assert find_root(None, cwd=nested / "src") == nested
    assert find_root(None, cwd=root / "vendor") == root


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        (stamped("x-agent-sandbox: {}\n", comment="#"), True),
        ("# Written by agent-sandbox 0.1.0.\n", True),
        ("# Written by hand\n", False),
        ("services: {}\n", False),
        ("", False),
    ],
)
def test_a_clone_with_our_compose_yaml_lacks_clone_files_until_they_are_created(
    tmp_path: Path, text: str, *, is_ours: bool
) -> None:
    (tmp_path / ".devcontainer").mkdir()
    assert not lacks_clone_files(tmp_path)
    (tmp_path / SHARED).write_text(text)
    assert (has_files(tmp_path), lacks_clone_files(tmp_path)) == (is_ours, is_ours)
    assert (find_root(None, cwd=tmp_path / "src") == tmp_path) is is_ours
    (tmp_path / STACK_FILE).touch()
    assert lacks_clone_files(tmp_path) is is_ours
    (tmp_path / VALUES).touch()
    assert (has_files(tmp_path), lacks_clone_files(tmp_path)) == (True, False)


def test_a_pipe_or_a_link_does_not_count_as_checked_in(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    os.mkfifo(tmp_path / SHARED)
    assert not has_files(tmp_path)
    (tmp_path / SHARED).unlink()
    (tmp_path / "ours").write_text(stamped("", comment="#"))
    (tmp_path / SHARED).symlink_to("../ours")
    assert not has_files(tmp_path)


def test_a_directory_that_the_agent_made_inside_a_project_is_not_the_root(root: Path) -> None:
    (root / "src" / ".devcontainer").mkdir(parents=True)
    (root / "src" / SHARED).write_text(stamped("", comment="#"))
    assert find_root(None, cwd=root / "src") == root
