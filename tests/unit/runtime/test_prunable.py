import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from agent_sandbox.images import base_name
from agent_sandbox.render.paths import STACK
from agent_sandbox.runtime.driver.container import Container, StackFound, Usage
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.project.trust_snapshot import Standing
from agent_sandbox.runtime.project.trust_store import Store
from agent_sandbox.runtime.prunable import Prunable, find_prunable
from agent_sandbox.stack.naming import stack_name

USED, FREE = "agent-sandbox/example:1", "agent-sandbox/example:0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory beside another one."""
    (tmp_path / "src" / "beside").mkdir(parents=True)
    (tmp_path / "src" / "app").mkdir()
    return tmp_path / "src" / "app"


@pytest.fixture
def store(tmp_path: Path, root: Path) -> Store:
    """Trust the directory's stack, made by another version: only its file names the image that it uses."""
    found = Store(folder=tmp_path / "trust", owners=frozenset({os.geteuid()}))
    text = f"name: {stack_name('app', str(root))}\nx-agent-sandbox: {{agent: example, dev: 1000:1000}}\n"
    text += f"services: {{agent: {{image: {USED}}}}}\n"
    found.save(Standing(root=root, owner=None, stack_files=(STACK,), files={STACK: text}))
    return found


def driver(root: Path) -> Driver:
    agent = Container(id="1", service="agent", image=USED, state="running")
    stack = StackFound(name=stack_name("app", str(root)), containers=(agent,), volumes=("v",))

    def own_images(*, leaving: tuple[str, ...] = ()) -> dict[str, int | None]:
        return {name: 1 for name in (USED, FREE, base_name()) if name != USED or "1" in leaving}

    made = SimpleNamespace(
        stacks=lambda: (stack,), usage=lambda _found: Usage(memory=None, disk={"v": 7}), own_images=own_images
    )
    return cast("Driver", made)


def test_keeps_the_stack_and_images_that_a_project_uses(root: Path, store: Store) -> None:
    assert find_prunable(driver(root), store, {}) == Prunable(stacks={}, images={FREE: 1}, cache={})


def test_finds_the_stack_and_images_of_a_removed_directory(root: Path, store: Store) -> None:
    shutil.rmtree(root)
    found = find_prunable(driver(root), store, {})
    assert (dict(found.stacks), set(found.images)) == ({stack_name("app", str(root)): 7}, {USED, FREE, base_name()})
    assert found.total == 10


def test_keeps_the_images_of_a_directory_whose_parent_is_missing(root: Path, store: Store) -> None:
    shutil.rmtree(root.parent)
    assert set(find_prunable(driver(root), store, {}).images) == {FREE}


def test_an_empty_result_is_falsy() -> None:
    assert not Prunable(stacks={}, images={}, cache={})


def test_finds_no_cache_files_behind_a_link_or_where_an_agent_can_write(root: Path, store: Store) -> None:
    others, cache = root / "documents", root / "cache" / "agent-sandbox"
    others.mkdir()
    (others / "letter").write_text("mine")
    cache.parent.mkdir()
    cache.symlink_to(others)
    environ = {"XDG_CACHE_HOME": str(cache.parent)}
    assert not find_prunable(driver(root), store, environ).cache
    cache.unlink()
    others.rename(cache)
    assert find_prunable(driver(root), store, environ).cache == {cache / "letter": 4}
    (root / ".devcontainer").mkdir()
    assert not find_prunable(driver(root), store, environ).cache
