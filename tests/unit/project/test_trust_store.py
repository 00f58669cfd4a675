import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.problems import UserError
from agent_sandbox.project.trust_snapshot import Standing
from agent_sandbox.project.trust_store import Store, open_store

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


def test_load_returns_exactly_what_was_saved(store: Store, standing: Standing) -> None:
    assert store.load(standing.root) is None
    store.save(standing)
    assert store.load(standing.root) == standing
    assert list(store) == [standing]


def test_stores_a_copy_of_each_compose_file_for_compose(store: Store, standing: Standing) -> None:
    store.save(standing)
    copies = store.copies(standing)
    assert [copy.name for copy in copies] == ["0-docker-compose.yml", "1-mine.yml"]
    assert [copy.read_text() for copy in copies] == ["name: app\n", "services: {}\n"]


def test_only_the_owner_can_access_the_folder(store: Store, standing: Standing) -> None:
    store.save(standing)
    assert store.folder.stat().st_mode & 0o777 == 0o700


def test_a_new_trust_record_replaces_the_previous_record(store: Store, standing: Standing) -> None:
    store.save(standing)
    store.save(replace(standing, owner=7))
    assert store.load(standing.root) == replace(standing, owner=7)


def test_has_no_record_for_a_moved_project(store: Store, standing: Standing, tmp_path: Path) -> None:
    store.save(standing)
    standing.root.rename(tmp_path / "moved")
    assert store.load(tmp_path / "moved") is None


def test_forget_removes_a_record_once(store: Store, standing: Standing) -> None:
    store.save(standing)
    assert [store.forget(standing.root), store.forget(standing.root)] == [True, False]
    assert (store.load(standing.root), list(store)) == (None, [])


def test_reports_a_damaged_record(store: Store, standing: Standing) -> None:
    store.save(standing)
    (place,) = store.folder.iterdir()
    (place / "trusted.json").write_text("{}")
    with pytest.raises(UserError) as raised:
        store.load(standing.root)
    assert str(raised.value) == f"{place}: this trust record is damaged; remove the folder; you will be asked again"


def test_ignores_a_record_that_was_moved_to_another_projects_place(
    store: Store, standing: Standing, tmp_path: Path
) -> None:
    store.save(standing)
    (place,) = store.folder.iterdir()
    other = tmp_path / "other"
    place.rename(store.folder / store.copies(replace(standing, root=other))[0].parent.name)
    assert store.load(other) is None


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_rejects_a_folder_that_others_can_write_to(store: Store, standing: Standing, mode: int) -> None:
    store.save(standing)
    store.folder.chmod(mode)
    what = "others may write to this folder, and so could trust projects for you"
    with pytest.raises(UserError) as raised:
        store.load(standing.root)
    assert str(raised.value) == f"{store.folder}: {what}; chmod 700 it, or {HINT}"
    with pytest.raises(UserError, match=what):
        store.save(standing)


def test_rejects_a_folder_that_belongs_to_another_user(store: Store, standing: Standing) -> None:
    store.save(standing)
    with pytest.raises(UserError) as raised:
        replace(store, owners=frozenset({os.geteuid() + 1})).load(standing.root)
    what = "this folder belongs to another user, who could trust projects for you"
    assert str(raised.value) == f"{store.folder}: {what}; chown it to yourself if you made it with sudo, or {HINT}"


def test_rejects_a_folder_in_the_project(store: Store, standing: Standing) -> None:
    inside = replace(store, folder=standing.root / "state")
    with pytest.raises(UserError) as raised:
        inside.save(standing)
    what = "this folder is in the project, where the agent could trust projects for you"
    assert str(raised.value) == f"{inside.folder}: {what}; {HINT}"


def test_reports_a_folder_that_cannot_be_created(tmp_path: Path, standing: Standing) -> None:
    (tmp_path / "file").touch()
    store = Store(folder=tmp_path / "file" / "trust", owners=frozenset({os.geteuid()}))
    with pytest.raises(UserError, match=f"{tmp_path}/file/trust: cannot be used: not a directory"):
        store.save(standing)


def test_the_store_is_in_the_users_state_directory(tmp_path: Path) -> None:
    expected = Store(folder=tmp_path / "agent-sandbox" / "trust", owners=frozenset({os.geteuid()}))
    assert open_store({"XDG_STATE_HOME": str(tmp_path)}) == expected
