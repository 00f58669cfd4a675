import asyncio
from pathlib import Path

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect, Policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.reloader import Reloader
from agent_sandbox.proxy.reload.transition import PolicyTransition

OLD, NEW = Policy.deny_all("old"), Policy.deny_all("new")
KINDS = ("added", "removed", "others", "unreachable")
NOTHING = {**{kind: [] for kind in KINDS}, "counts": dict.fromkeys(KINDS, 0)}


class Desk:
    """A reloader of a policy that the test sets, and what it did."""

    def __init__(self) -> None:
        self.file: Policy | None = OLD
        self.steps: list[str] = []
        self.reviews: list[PolicyTransition] = []
        self.lines: list[AuditRecord] = []
        self.store = PolicyStore(Path("p.yaml"), load=self.load)
        self.published: list[Policy] = []
        self.reloader = Reloader(self.store, review=self.review, record=self.lines.append, publish=self.publish)
        self.steps.clear()

    def load(self, _: Path) -> Policy:
        self.steps.append("load")
        if self.file is None:
            raise UserError([Problem(where="p.yaml:1", what="bad")])
        return self.file

    async def review(self, revision: PolicyTransition) -> int:
        self.reviews.append(revision)
        await asyncio.sleep(0)
        self.steps.append("review")
        return 3

    def publish(self, policy: Policy) -> None:
        self.published.append(policy)
        self.steps.append("publish")


async def test_a_valid_file_is_loaded_and_open_connections_are_reviewed() -> None:
    desk = Desk()
    desk.file = NEW
    wanted = {"ok": True, "digest": NEW.digest, "problems": [], "change": NOTHING, "closed": 3}
    assert await desk.reloader.reload() == wanted
    assert desk.reviews == [PolicyTransition(old=OLD, new=NEW)]
    assert desk.published == [NEW]
    reason = (
        "policy reloaded: 0 rules added, 0 removed, 0 other changes; 0 hosts no longer reachable, 3 connections closed"
    )
    assert desk.lines == [AuditRecord(event=Event.POLICY, decision=Effect.ALLOW, reason=reason)]


async def test_an_invalid_file_changes_nothing() -> None:
    desk = Desk()
    desk.file = None
    refused = {"ok": False, "valid": True, "digest": OLD.digest, "problems": ["p.yaml:1: bad"]}
    assert await desk.reloader.reload() == refused
    assert (desk.reviews, desk.published, desk.store.current) == ([], [], OLD)
    assert [line.reason for line in desk.lines] == ["policy not reloaded, the file has problems: p.yaml:1: bad"]


async def test_two_simultaneous_reloads_run_one_after_the_other() -> None:
    desk = Desk()
    await asyncio.gather(*(desk.reloader.reload() for _ in range(2)))
    assert desk.steps == ["load", "review", "publish"] * 2
    assert len(desk.lines) == 2
