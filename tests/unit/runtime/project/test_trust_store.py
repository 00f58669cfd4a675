import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.trust_snapshot import Standing
from agent_sandbox.runtime.project.trust_store import Store, open_store

COMPOSE = ".devcontainer/docker-compose.yml"
HINT = "set XDG_STATE_HOME to a directory that only you can write, outside all projects"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(folder=tmp_path / "state" / "trust", owners=frozenset({os.geteuid()}))


@pytest.fixture
def standing(tmp_path: Path) -> Standing:
    (tmp_path / "app").mkdir()
    files = {COMPOSE: "name: app\n", "/mine.yml": "services: {}\n", ".devcontainer/policy.yaml": "\udcff\n"}
    return Standing(root=tmp_path / "app", owner=None, stack_files=(COMPOSE, "/mine.yml"), files=files)


def test_what_is_saved_is_found_again_to_the_byte(store: Store, standing: Standing) -> None:
    assert store.load(standing.root) is None
    store.save(standing)
    assert store.load(standing.root) == standing
    assert list(store) == [standing]


def test_compose_files_lie_there_once_more_for_compose_itself(store: Store, standing: Standing) -> None:
    store.save(standing)
    copies = store.copies(standing)
    assert [copy.name for copy in copies] == ["0-docker-compose.yml", "1-mine.yml"]
    assert [copy.read_text() for copy in copies] == ["name: app\n", "services: {}\n"]


def test_nobody_else_can_read_or_write_it(store: Store, standing: Standing) -> None:
    store.save(standing)
    assert store.folder.stat().st_mode & 0o777 == 0o700


def test_the_last_yes_counts(store: Store, standing: Standing) -> None:
    store.save(standing)
    store.save(replace(standing, owner=7))
    assert store.load(standing.root) == replace(standing, owner=7)


def test_a_project_that_was_moved_is_not_known_any_more(store: Store, standing: Standing, tmp_path: Path) -> None:
    store.save(standing)
    standing.root.rename(tmp_path / "moved")
    assert store.load(tmp_path / "moved") is None


def test_a_yes_can_be_taken_back_once(store: Store, standing: Standing) -> None:
    store.save(standing)
    assert [store.forget(standing.root), store.forget(standing.root)] == [True, False]
    assert (store.load(standing.root), list(store)) == (None, [])


def test_a_record_that_is_broken_is_a_problem_and_no_yes(store: Store, standing: Standing) -> None:
    store.save(standing)
    (place,) = store.folder.iterdir()
    (place / "trusted.json").write_text("{}")
    with pytest.raises(UserError) as raised:
        store.load(standing.root)
    assert str(raised.value) == f"{place}: this trust record is damaged; remove the folder; you will be asked again"


def test_a_record_that_was_put_in_anothers_place_is_none(store: Store, standing: Standing, tmp_path: Path) -> None:
    store.save(standing)
    (place,) = store.folder.iterdir()
    other = tmp_path / "other"
    place.rename(store.folder / store.copies(replace(standing, root=other))[0].parent.name)
    assert store.load(other) is None


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_folder_that_others_may_write_to_is_no_store(store: Store, standing: Standing, mode: int) -> None:
    store.save(standing)
    store.folder.chmod(mode)
    what = "others may write to this folder, and so could trust projects for you"
    with pytest.raises(UserError) as raised:
        store.load(standing.root)
    assert str(raised.value) == f"{store.folder}: {what}; chmod 700 it, or {HINT}"
    with pytest.raises(UserError, match=what):
        store.save(standing)


def test_a_folder_of_somebody_else_is_no_store(store: Store, standing: Standing) -> None:
    store.save(standing)
    with pytest.raises(UserError) as raised:
        replace(store, owners=frozenset({os.geteuid() + 1})).load(standing.root)
    what = "this folder belongs to another user, who could trust projects for you"
    assert str(raised.value) == f"{store.folder}: {what}; chown it to yourself if you made it with sudo, or {HINT}"


def test_a_folder_in_the_project_itself_is_no_store(store: Store, standing: Standing) -> None:
    inside = replace(store, folder=standing.root / "state")
    with pytest.raises(UserError) as raised:
        inside.save(standing)
    what = "this folder is in the project, where the agent could trust projects for you"
    assert str(raised.value) == f"{inside.folder}: {what}; {HINT}"


def test_a_place_that_can_not_be_made_is_a_problem(tmp_path: Path, standing: Standing) -> None:
    (tmp_path / "file").touch()
    store = Store(folder=tmp_path / "file" / "trust", owners=frozenset({os.geteuid()}))
    with pytest.raises(UserError, match=f"{tmp_path}/file/trust: cannot be used: not a directory"):
        store.save(standing)


def test_the_store_is_below_the_users_state(tmp_path: Path) -> None:
    expected = Store(folder=tmp_path / "agent-sandbox" / "trust", owners=frozenset({os.geteuid()}))
    assert open_store({"XDG_STATE_HOME": str(tmp_path)}) == expected
