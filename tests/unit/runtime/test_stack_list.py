from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.driver.container import Container, StackFound, Usage
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.project.trust_store import Store
from agent_sandbox.runtime.stack_list import list_stacks, orphans, without_directory

AGENT = Container(id="1", service="agent", image="x", state="running")
PROXY = Container(id="2", service="proxy", image="x", state="running")


def engine(*stacks: StackFound) -> Driver:
    """Return a driver that finds these stacks and measures nothing."""
    driver = SimpleNamespace(
        stacks=lambda: stacks, usage=lambda _found: Usage(memory=None, disk=None), labels_of=lambda _names: {}
    )
    return cast("Driver", driver)


@pytest.fixture
def nobody(tmp_path: Path) -> Store:
    """Return a store without records."""
    return Store(folder=tmp_path / "trust", owners=frozenset())


def test_an_unknown_stack_has_the_directory_that_its_containers_name(tmp_path: Path, nobody: Store) -> None:
    here = StackFound(name="app-1", containers=(AGENT,), directory=f"{tmp_path}/.devcontainer")
    gone = StackFound(name="app-2", containers=(AGENT,), directory=f"{tmp_path}/gone/.devcontainer")
    bare = StackFound(name="app-3", volumes=("app-3_ca-private",))
    found = list_stacks(engine(here, gone, bare), nobody, ask=lambda _proxy: {})
    assert [(one.root, one.orphaned, len(one.notes)) for one in found] == [
        (tmp_path, False, 0),
        (tmp_path / "gone", True, 1),
        (None, False, 1),
    ]
    assert orphans(engine(here, gone, bare), nobody) == (gone,)


@pytest.mark.parametrize("error", [UserError([Problem(where="", what="x")]), ValueError(), KeyError()])
def test_a_proxy_that_does_not_answer_counts_nothing(nobody: Store, error: Exception) -> None:
    def ask(_proxy: Container) -> dict[str, Any]:
        raise error

    (one,) = list_stacks(engine(StackFound(name="app-1", containers=(PROXY,))), nobody, ask=ask)
    assert (one.denied, one.memory, one.disk) == (None, None, None)


def test_a_name_alone_is_a_project_without_files() -> None:
    assert (without_directory("app-1").name, without_directory("app-1").files) == ("app-1", ())
