import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from agent_sandbox.engines.container import Container, StackFound, Usage
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.stack.stack_list import (
    AWAY,
    GONE,
    OTHER,
    UNKNOWN,
    list_stacks,
    orphans,
    without_directory,
)
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import new_clone, save_clone
from agent_sandbox.project.installed import removal_of
from agent_sandbox.project.render.paths import STACK
from agent_sandbox.project.trust_snapshot import Standing
from agent_sandbox.project.trust_store import Store
from agent_sandbox.stack.naming import stack_name

AGENT = Container(id="1", service="agent", image="x", state="running")
PROXY = Container(id="2", service="proxy", image="x", state="running")


def engine(*stacks: StackFound) -> Driver:
    """Return a driver that finds these stacks and measures nothing."""
    driver = SimpleNamespace(
        stacks=lambda: stacks,
        usage=lambda _found, **_options: Usage(memory=None, disk=None),
        images=lambda _names: {},
    )
    return cast("Driver", driver)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty trust store."""
    return Store(folder=tmp_path / "trust", owners=frozenset({os.geteuid()}))


def test_ctrl_c_stops_asking_proxies(store: Store) -> None:
    many = [StackFound(name=f"app-{number}", containers=(PROXY,)) for number in range(200)]
    pressed, asked = threading.Event(), []

    def ask(proxy: Container) -> dict[str, Any]:
        asked.append(proxy)
        pressed.wait(30)
        return {}

    def press(_found: object, *, disk: bool) -> Usage:
        raise KeyboardInterrupt(disk)

    driver = cast("Any", engine(*many))
    driver.usage = press
    threading.Timer(0.1, pressed.set).start()
    with pytest.raises(KeyboardInterrupt):
        list_stacks(driver, store, ask=ask)
    assert len(asked) < len(many)


def test_an_unknown_stack_has_the_directory_that_its_containers_name(tmp_path: Path, store: Store) -> None:
    here = StackFound(name="app-1", containers=(AGENT,), directory=f"{tmp_path}/.devcontainer")
    gone = StackFound(name="app-2", containers=(AGENT,), directory=f"{tmp_path}/gone/.devcontainer")
    bare = StackFound(name="app-3", volumes=("app-3_ca-private",))
    found = list_stacks(engine(here, gone, bare), store, ask=lambda _proxy: {})
    assert [(one.root, one.orphaned, one.notes) for one in found] == [
        (tmp_path, False, ()),
        (tmp_path / "gone", False, (UNKNOWN,)),
        (None, False, (UNKNOWN,)),
    ]
    assert orphans(engine(here, gone, bare), store) == ()


@pytest.fixture
def trusted(tmp_path: Path, store: Store) -> StackFound:
    """Return the stack of a trusted project beside another one."""
    root = tmp_path / "src" / "app"
    (tmp_path / "src" / "other").mkdir(parents=True)
    root.mkdir()
    trust_as(store, root, stack_name("app", str(root)))
    return StackFound(name=stack_name("app", str(root)), directory=f"{root}/.devcontainer")


def mkfifo(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)


def trust_as(store: Store, root: Path, name: str) -> None:
    text = f"name: {name}\nx-agent-sandbox:\n  agent: a\n  dev: 1000:1000\n"
    store.save(Standing(root=root, owner=None, stack_files=(STACK,), files={STACK: text}))


@pytest.mark.parametrize(
    ("happens", "orphaned", "note"),
    [
        (lambda root: root.rmdir(), True, GONE),
        (lambda root: shutil.rmtree(root.parent), False, AWAY),
        (lambda root: [one.rmdir() for one in root.parent.iterdir()], False, AWAY),
        (lambda root: mkfifo(root / STACK), False, None),
        (lambda root: (root / ".devcontainer").mkdir() or (root / STACK).write_text("name: other"), False, None),
    ],
)
def test_a_stack_is_orphaned_only_if_its_directory_was_removed(
    trusted: StackFound, store: Store, happens: Callable[[Path], object], note: str | None, *, orphaned: bool
) -> None:
    happens(Path(trusted.directory).parent)
    (one,) = list_stacks(engine(trusted), store, ask=lambda _proxy: {})
    assert (one.orphaned, one.notes) == (orphaned, (note.format(removal_of(trusted.name)),) if note else ())
    assert orphans(engine(trusted), store) == ((trusted,) if orphaned else ())


def test_a_stack_whose_directory_cannot_be_reached_is_not_orphaned(
    trusted: StackFound, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_path: Path, **_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", unreachable)
    assert orphans(engine(trusted), store) == ()


def test_a_stack_is_orphaned_only_under_the_name_made_for_its_directory(trusted: StackFound, store: Store) -> None:
    root = Path(trusted.directory).parent
    trust_as(store, root, stack_name("new", str(root)))
    imitation = StackFound(name="database", directory=trusted.directory)
    assert orphans(engine(trusted, imitation), store) == (trusted,)
    listed = list_stacks(engine(trusted, imitation), store, ask=lambda _proxy: {})
    assert [one.notes for one in listed] == [(OTHER.format(stack_name("new", str(root))),), ()]


@pytest.mark.parametrize("error", [UserError([Problem(where="", what="x")]), ValueError(), KeyError()])
def test_denials_are_unknown_if_the_proxy_does_not_answer(store: Store, error: Exception) -> None:
    def ask(_proxy: Container) -> dict[str, Any]:
        raise error

    (one,) = list_stacks(engine(StackFound(name="app-1", containers=(PROXY,))), store, ask=ask)
    assert (one.denied, one.memory, one.disk) == (None, None, None)


def test_a_project_without_a_directory_has_a_name_and_no_files() -> None:
    assert (without_directory("app-1").name, without_directory("app-1").files) == ("app-1", ())


def test_lists_the_clone_of_a_stack_and_ignores_a_damaged_clone_record(
    tmp_path: Path, store: Store, trusted: StackFound, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    clone = new_clone(tmp_path, "fix-1", os.environ, title="app")
    save_clone(clone)
    (standing,) = store
    moved = replace(standing, root=clone.root)
    store.forget(standing.root)
    store.save(moved)
    (found,) = list_stacks(engine(trusted), store, ask=lambda _proxy: {})
    assert found.clone == clone
    clone.root.with_name("fix-1.json").write_text("")
    (found,) = list_stacks(engine(trusted), store, ask=lambda _proxy: {})
    assert (found.clone, found.root) == (None, clone.root)
