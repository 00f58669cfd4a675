import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from agent_sandbox.features.policy.rule_edit import planned_edits, planned_service
from agent_sandbox.features.trust.auto_trust import remember
from agent_sandbox.features.trust.prompt import changes
from agent_sandbox.features.trust.trusted_edit import write_trusted
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.editing import Edited
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import Store, open_store
from init_project import Init

POLICY = ".devcontainer/policy.yaml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "app" / ".devcontainer").mkdir(parents=True)
    return tmp_path / "app"


@pytest.fixture
def trusted(root: Path, init: Init, tmp_path: Path) -> Store:
    store = open_store({"XDG_STATE_HOME": str(tmp_path)})
    remember(store, init(root), look(root, os.environ))
    return store


def test_edits_by_commands_that_run_at_the_same_time_are_all_written_and_trusted(trusted: Store, root: Path) -> None:
    environ = {"XDG_STATE_HOME": str(trusted.folder.parent.parent)}
    rules = [f"GET https://{number}.test/" for number in range(12)]
    begin = threading.Barrier(13)

    def edit(plan: Callable[[], tuple[str, Edited | None]]) -> Edited | None:
        begin.wait(30)
        return write_trusted(root / POLICY, plan, environ)

    def plan(rule: str) -> tuple[str, Edited | None]:
        before, (after,) = planned_edits(root / POLICY, [read_short_rule(Effect.ALLOW, [rule])], environ)
        assert isinstance(after, Edited)
        return before, after

    with ThreadPoolExecutor(13) as pool:
        plans = [*(partial(plan, rule) for rule in rules), partial(planned_service, root / POLICY, "rust", environ)]
        assert all(pool.map(edit, plans))
    text = (root / POLICY).read_text()
    assert [rule for rule in rules if f"- {rule}\n" not in text] == []
    assert "- rust\n" in text
    assert changes(look(root, os.environ), trusted.load(root)) == ()
