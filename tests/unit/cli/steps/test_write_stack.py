from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.cli.steps import protection_prompt
from agent_sandbox.cli.steps import write_stack as module
from agent_sandbox.cli.steps.write_stack import require_no_conflict, write_stack
from agent_sandbox.problems import UserError
from agent_sandbox.render.reconcile import OnConflict, Verdict
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.init.initialise import InitOptions, Prepared, prepare


@pytest.fixture
def wish(empty_project: Path) -> InitOptions:
    """Return the options of an `init` in an empty project."""
    agent = known_agents(data_root() / "templates")[0]
    return InitOptions(
        agents=(agent,), path=empty_project, title=None, ide=None, on_conflict=OnConflict.KEEP, detect=False
    )


def test_writes_files_and_records_them(wish: InitOptions, empty_project: Path) -> None:
    prepared = write_stack(wish)
    require_no_conflict(prepared)
    assert {change.verdict for change in prepared.changes} == {Verdict.WRITTEN}
    assert all((empty_project / change.path).exists() for change in prepared.changes)
    assert not [note for note in prepared.notes if "existed before init" in note]


def test_a_dry_run_and_a_conflict_write_nothing(wish: InitOptions, empty_project: Path) -> None:
    write_stack(wish, dry_run=True)
    assert list(empty_project.iterdir()) == []
    file = empty_project / ".devcontainer" / "docker-compose.yml"
    file.parent.mkdir()
    file.write_text("services: {}\n")
    prepared = write_stack(wish)
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    with pytest.raises(UserError) as refused:
        require_no_conflict(prepared)
    (problem,) = refused.value.problems
    assert problem.what.endswith("; nothing was written")
    assert problem.hint == "--force writes what the diff shows; or move .devcontainer/docker-compose.yml away"


@pytest.mark.usefixtures("empty_project")
def test_asks_only_with_ask_and_if_there_are_changes(wish: InitOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Prepared] = []

    def settle(_: InitOptions, prepared: Prepared) -> Prepared:
        asked.append(prepared)
        return prepared

    def with_kept(options: InitOptions, environ: Mapping[str, str]) -> Prepared:
        made = prepare(options, environ)
        return replace(made, protection=replace(made.protection, kept=("f",)))

    monkeypatch.setattr(protection_prompt, "settle", settle)
    write_stack(wish)
    monkeypatch.setattr(module, "prepare", with_kept)
    write_stack(wish, ask=False)
    assert asked == []
    write_stack(wish)
    assert len(asked) == 1


def test_names_an_existing_policy(wish: InitOptions, empty_project: Path) -> None:
    policy = empty_project / ".devcontainer" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("version: 1\ndomains: [example.com]\n")
    note = ".devcontainer/policy.yaml: existed before init; `agent-sandbox up` shows it and asks whether you trust it"
    assert note in write_stack(wish).notes
