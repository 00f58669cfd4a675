import os
from pathlib import Path

import pytest

from agent_sandbox.runtime.project.root import STACK_FILE, find_root
from agent_sandbox.runtime.project.trust_snapshot import look
from agent_sandbox.runtime.project.trust_store import open_store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project_at(tmp_path / "app")


def project_at(root: Path) -> Path:
    (root / STACK_FILE).parent.mkdir(parents=True)
    (root / STACK_FILE).write_text("services: {}")
    return root


def test_the_directory_that_is_named_is_meant_whatever_is_there(root: Path) -> None:
    assert find_root(root / "x", cwd=root) == root / "x"


def test_otherwise_it_is_the_one_around_if_there_is_one(root: Path) -> None:
    assert find_root(None, cwd=root / "src") == root
    assert find_root(None, cwd=root.parent) is None


def test_of_several_it_is_the_outermost_until_the_user_has_looked_at_another(root: Path) -> None:
    nested = project_at(root / "vendor" / "lib")
    assert find_root(None, cwd=nested / "src") == root
    open_store(os.environ).save(look(nested, os.environ))
    assert find_root(None, cwd=nested / "src") == nested
    assert find_root(None, cwd=root / "vendor") == root
