import json
import os
from pathlib import Path

import pytest

from agent_sandbox.features.stack.init.initialise import prepare
from agent_sandbox.features.trust.auto_trust import remember, remembering
from agent_sandbox.features.trust.prompt import changes
from agent_sandbox.problems import UserError
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import Store, open_store
from init_project import Init, init_options

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
    """Run `init` and return the changes that are not trusted."""
    remember(store, init(root, force=force), look(root, os.environ))
    return changes(look(root, os.environ), store.load(root))


def test_trusts_what_init_writes_on_the_first_and_second_run(store: Store, root: Path, init: Init) -> None:
    assert [unseen(store, root, init), unseen(store, root, init)] == [(), ()]


def test_does_not_trust_a_policy_that_came_with_the_project(store: Store, root: Path, init: Init) -> None:
    (root / POLICY).write_text("version: 1\ndomains: [evil.test]\n")
    assert [unseen(store, root, init), unseen(store, root, init, force=True)] == [(POLICY,), (POLICY,)]


def test_does_not_trust_a_devcontainer_json_that_came_with_the_project(store: Store, root: Path, init: Init) -> None:
    (root / DEVCONTAINER).write_text(json.dumps({"postCreateCommand": "make"}))
    assert unseen(store, root, init) == (DEVCONTAINER,)


def test_does_not_trust_further_compose_files_of_the_stack(store: Store, root: Path, init: Init) -> None:
    (root / "more.yml").write_text("services: {}\n")
    (root / ".env").write_text(f"COMPOSE_FILE={COMPOSE}:more.yml\n")
    assert unseen(store, root, init) == (".env", "more.yml")
    store.save(look(root, os.environ))
    assert unseen(store, root, init) == ()
    (root / ".env").write_text(f"COMPOSE_FILE={COMPOSE}\n")
    assert unseen(store, root, init) == ()


def test_trusts_a_compose_file_that_init_restores(store: Store, root: Path, init: Init) -> None:
    unseen(store, root, init)
    (root / COMPOSE).write_text((root / COMPOSE).read_text() + "# theirs\n")
    assert unseen(store, root, init, force=True) == ()


def test_keeps_trust_in_a_file_that_init_adds_to(store: Store, root: Path, init: Init) -> None:
    init(root)
    (root / DEVCONTAINER).write_text(json.dumps({"postCreateCommand": "make"}))
    store.save(look(root, os.environ))
    assert unseen(store, root, init) == ()
    assert json.loads((root / DEVCONTAINER).read_text())["service"] == "agent"


def test_does_not_trust_a_policy_that_was_widened_before_init_ran_again(store: Store, root: Path, init: Init) -> None:
    unseen(store, root, init)
    (root / POLICY).write_text("version: 1\ndomains: [evil.test]\n")
    assert unseen(store, root, init) == (POLICY,)


def edited(store: Store, root: Path, text: str, written: str) -> tuple[str, ...]:
    """Announce `text` as the policy, write `written`, and return the changes that are not trusted."""
    environ = {"XDG_STATE_HOME": str(store.folder.parent.parent)}
    with remembering(root / POLICY, {POLICY: text}, environ):
        (root / POLICY).write_text(written)
    return changes(look(root, os.environ), open_store(environ).load(root))


@pytest.fixture
def trusted(root: Path, init: Init, tmp_path: Path) -> Store:
    store = open_store({"XDG_STATE_HOME": str(tmp_path)})
    remember(store, init(root), look(root, os.environ))
    return store


def test_trusts_an_edit_by_our_own_command(trusted: Store, root: Path) -> None:
    text = "version: 1\ndomains: [example.org]\n"
    assert [edited(trusted, root, text, text), edited(trusted, root, text, f"\ufeff{text}")] == [(), ()]


def test_does_not_trust_an_edit_of_an_untrusted_policy(trusted: Store, root: Path) -> None:
    (root / POLICY).write_text("version: 1\ndomains: [evil.test]\n")
    text = "version: 1\ndomains: [evil.test, example.org]\n"
    assert edited(trusted, root, text, text) == (POLICY,)


def test_does_not_trust_an_edit_that_differs_from_the_announced_text(trusted: Store, root: Path) -> None:
    text = "version: 1\ndomains: [example.org]\n"
    assert edited(trusted, root, text, f"{text}services: [github]\n") == (POLICY,)


def test_stores_no_trust_for_a_policy_outside_a_project(trusted: Store, root: Path, tmp_path: Path) -> None:
    with remembering(tmp_path / "policy.yaml", {POLICY: "version: 1\n"}, {"XDG_STATE_HOME": str(tmp_path)}):
        pass
    assert [standing.root for standing in trusted] == [root]


def test_trusts_a_service_that_our_own_command_resolved(trusted: Store, root: Path, tmp_path: Path) -> None:
    edited(trusted, root, *["version: 1\nservices: [python]\n"] * 2)
    path = ".devcontainer/services/python.yaml"
    text = "version: 1\ndomains: [{host: mirror.example.com, rules: [{methods: [GET]}]}]\n"
    (root / path).parent.mkdir()
    with remembering(root / POLICY, {path: text}, {"XDG_STATE_HOME": str(tmp_path)}):
        (root / path).write_text(text)
    assert changes(look(root, os.environ), trusted.load(root)) == ()
    (root / path).write_text(text.replace("mirror", "evil"))
    assert changes(look(root, os.environ), trusted.load(root)) == (path,)


def test_init_writes_nothing_if_a_file_that_it_merges_changed_meanwhile(root: Path, tmp_path: Path) -> None:
    (root / DEVCONTAINER).write_text("{}")
    prepared = prepare(init_options(root), {"HOME": str(tmp_path / "home")})
    (root / DEVCONTAINER).write_text('{"postCreateCommand": "make"}')
    with pytest.raises(UserError) as raised:
        prepared.write()
    what = "changed while this command ran, so nothing was written; run it again"
    assert str(raised.value) == f"{root / DEVCONTAINER}: {what}"
    assert [file.name for file in root.rglob("*")] == [".devcontainer", "devcontainer.json"]
