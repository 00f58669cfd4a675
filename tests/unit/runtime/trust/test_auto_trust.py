import json
import os
from pathlib import Path

import pytest

from agent_sandbox.runtime.project.trust_snapshot import look
from agent_sandbox.runtime.project.trust_store import Store, open_store
from agent_sandbox.runtime.trust.auto_trust import remember, remembering
from agent_sandbox.runtime.trust.prompt import changes
from init_project import Init

COMPOSE = ".devcontainer/docker-compose.yml"
DEVCONTAINER = ".devcontainer/devcontainer.json"
POLICY = ".devcontainer/policy.yaml"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(folder=tmp_path / "state" / "trust", owners=frozenset({os.geteuid()}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "app" / ".devcontainer").mkdir(parents=True)
    return tmp_path / "app"


def unseen(store: Store, root: Path, init: Init, *, force: bool = False) -> tuple[str, ...]:
    """Run `init` and return what it leaves to be looked at."""
    remember(store, init(root, force=force), look(root, os.environ))
    return changes(look(root, os.environ), store.load(root))


def test_what_init_writes_is_trusted_and_stays_so(store: Store, root: Path, init: Init) -> None:
    assert [unseen(store, root, init), unseen(store, root, init)] == [(), ()]


def test_a_policy_that_came_with_the_project_is_not(store: Store, root: Path, init: Init) -> None:
    (root / POLICY).write_text("version: 1\ndomains: [evil.test]\n")
    assert [unseen(store, root, init), unseen(store, root, init, force=True)] == [(POLICY,), (POLICY,)]


def test_an_editors_file_that_came_with_it_is_not(store: Store, root: Path, init: Init) -> None:
    (root / DEVCONTAINER).write_text(json.dumps({"postCreateCommand": "make"}))
    assert unseen(store, root, init) == (DEVCONTAINER,)


def test_further_files_of_the_stack_are_not(store: Store, root: Path, init: Init) -> None:
    (root / "more.yml").write_text("services: {}\n")
    (root / ".env").write_text(f"COMPOSE_FILE={COMPOSE}:more.yml\n")
    assert unseen(store, root, init) == (".env", "more.yml")
    store.save(look(root, os.environ))
    assert unseen(store, root, init) == ()
    (root / ".env").write_text(f"COMPOSE_FILE={COMPOSE}\n")
    assert unseen(store, root, init) == ()


def test_a_stack_that_init_puts_back_is_trusted(store: Store, root: Path, init: Init) -> None:
    unseen(store, root, init)
    (root / COMPOSE).write_text((root / COMPOSE).read_text() + "# theirs\n")
    assert unseen(store, root, init, force=True) == ()


def test_what_the_user_had_trusted_and_init_adds_to_stays_trusted(store: Store, root: Path, init: Init) -> None:
    init(root)
    (root / DEVCONTAINER).write_text(json.dumps({"postCreateCommand": "make"}))
    store.save(look(root, os.environ))
    assert unseen(store, root, init) == ()
    assert json.loads((root / DEVCONTAINER).read_text())["service"] == "agent"


def test_a_policy_is_measured_by_what_was_trusted_and_not_by_what_init_found(
    store: Store, root: Path, init: Init
) -> None:
    unseen(store, root, init)
    (root / POLICY).write_text("version: 1\ndomains: [evil.test]\n")
    assert unseen(store, root, init) == (POLICY,)


def edited(store: Store, root: Path, text: str, written: str) -> tuple[str, ...]:
    """Say that the policy becomes `text`, write something, and return what is left to be looked at."""
    environ = {"XDG_STATE_HOME": str(store.folder.parent.parent)}
    with remembering(root / POLICY, {POLICY: text}, environ):
        (root / POLICY).write_text(written)
    return changes(look(root, os.environ), open_store(environ).load(root))


@pytest.fixture
def trusted(root: Path, init: Init, tmp_path: Path) -> Store:
    store = open_store({"XDG_STATE_HOME": str(tmp_path)})
    remember(store, init(root), look(root, os.environ))
    return store


def test_an_edit_by_our_own_command_is_trusted(trusted: Store, root: Path) -> None:
    text = "version: 1\ndomains: [example.org]\n"
    assert [edited(trusted, root, text, text), edited(trusted, root, text, f"\ufeff{text}")] == [(), ()]


def test_an_edit_of_what_nobody_has_looked_at_is_not(trusted: Store, root: Path) -> None:
    (root / POLICY).write_text("version: 1\ndomains: [evil.test]\n")
    text = "version: 1\ndomains: [evil.test, example.org]\n"
    assert edited(trusted, root, text, text) == (POLICY,)


def test_an_edit_that_came_out_otherwise_is_not(trusted: Store, root: Path) -> None:
    text = "version: 1\ndomains: [example.org]\n"
    assert edited(trusted, root, text, f"{text}services: [github]\n") == (POLICY,)


def test_a_policy_that_is_no_projects_is_nobodys_to_trust(trusted: Store, root: Path, tmp_path: Path) -> None:
    with remembering(tmp_path / "policy.yaml", {POLICY: "version: 1\n"}, {"XDG_STATE_HOME": str(tmp_path)}):
        pass
    assert [standing.root for standing in trusted] == [root]


def test_a_service_that_was_resolved_by_our_own_command_is_trusted(trusted: Store, root: Path, tmp_path: Path) -> None:
    edited(trusted, root, *["version: 1\nservices: [python]\n"] * 2)
    path = ".devcontainer/services/python.yaml"
    text = "version: 1\ndomains: [{host: mirror.example.com, rules: [{methods: [GET]}]}]\n"
    (root / path).parent.mkdir()
    with remembering(root / POLICY, {path: text}, {"XDG_STATE_HOME": str(tmp_path)}):
        (root / path).write_text(text)
    assert changes(look(root, os.environ), trusted.load(root)) == ()
    (root / path).write_text(text.replace("mirror", "evil"))
    assert changes(look(root, os.environ), trusted.load(root)) == (path,)
