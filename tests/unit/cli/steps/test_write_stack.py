from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.cli.steps import protection_prompt
from agent_sandbox.cli.steps import write_stack as module
from agent_sandbox.cli.steps.write_stack import write_stack
from agent_sandbox.render.reconcile import OnConflict
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.init.initialise import InitOptions, Prepared, prepare


@pytest.fixture
def wish(empty_project: Path) -> InitOptions:
    """Return the options of an `init` in an empty project."""
    agent = known_agents(data_root() / "templates")[0]
    return InitOptions(
        agents=(agent,), path=empty_project, title=None, ide=None, on_conflict=OnConflict.KEEP, detect=False
    )


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
