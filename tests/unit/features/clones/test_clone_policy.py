import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.clones.clone_policy import bring_policy, keeps_own_policy, update_policy
from agent_sandbox.project.clone_record import Clone, clone_named, new_clone, save_clone
from agent_sandbox.project.trust_snapshot import Standing
from agent_sandbox.project.trust_store import open_store


@pytest.fixture
def clone(project: Path) -> Clone:
    made = new_clone(project, "fix-1", os.environ, title="app")
    save_clone(made)
    return made


def policy(clone: Clone) -> Path:
    return clone.root / ".devcontainer" / "policy.yaml"


def trusted(project: Path) -> Standing:
    found = open_store(os.environ).load(project)
    assert found
    return found


def test_copies_the_trusted_policy_to_the_clone_and_records_it(project: Path, clone: Clone) -> None:
    brought = bring_policy(clone, trusted(project))
    assert policy(clone).read_text() == (project / ".devcontainer" / "policy.yaml").read_text()
    assert clone_named(project, "fix-1", os.environ) == brought != clone
    assert not keeps_own_policy(brought)


def test_keeps_a_policy_that_was_edited_in_the_clone(
    project: Path, clone: Clone, capsys: pytest.CaptureFixture[str]
) -> None:
    brought = bring_policy(clone, trusted(project))
    policy(clone).write_text("version: 1\n")
    assert keeps_own_policy(brought)
    assert bring_policy(brought, trusted(project)) == brought
    assert policy(clone).read_text() == "version: 1\n"
    assert capsys.readouterr().err == (
        "note: fix-1 keeps its own policy, because it was edited there; "
        "agent-sandbox policy allow --path fix-1 adds to it\n"
    )


def test_copies_no_policy_from_an_untrusted_project(project: Path, clone: Clone) -> None:
    open_store(os.environ).forget(project)
    update_policy(clone)
    assert not policy(clone).exists()
    assert clone_named(project, "fix-1", os.environ) == replace(clone)
