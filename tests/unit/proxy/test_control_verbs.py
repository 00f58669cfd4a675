from datetime import UTC, datetime
from pathlib import Path

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.audit.audit_log import CHECKED_NAME, AuditLog
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.control_verbs import control_verbs
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.reloader import Reloader

POLICY = Policy.deny_all("x")


class Desk:
    """The verbs of a store whose file a test can make invalid."""

    def __init__(self) -> None:
        self.bad = False
        self.lines: list[bytes] = []
        self.now = 0.0
        self.audit_log = AuditLog([self.lines.append], clock=lambda: 0.0, monotonic=lambda: self.now)
        store = PolicyStore(Path("p.yaml"), load=self.load, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        reloader = Reloader(store, review=nothing_is_open, record=self.audit_log.record)
        self.verbs = control_verbs(store, self.audit_log, reloader, lambda: {"listening": "127.0.0.1:1"})

    def load(self, _: Path) -> Policy:
        if self.bad:
            raise UserError([Problem(where="p.yaml:1", what="bad")])
        return POLICY


async def test_status_describes_policy_process_and_requests() -> None:
    assert await Desk().verbs["status"]({}) == {
        "policy": {
            "file": "p.yaml",
            "digest": POLICY.digest,
            "valid": True,
            "loaded": "2026-01-01T00:00:00Z",
            "problems_since": None,
            "problems": [],
            "upstream": [],
        },
        "listening": "127.0.0.1:1",
        "requests": {"allowed": 0, "denied": 0, "starts": 0},
        "failed": {"count": 0, "last": []},
        "hints": {"count": 0, "last": []},
    }


async def test_reload_is_answered_by_the_reloader() -> None:
    desk = Desk()
    assert (await desk.verbs["reload"]({}))["ok"] is True
    desk.bad = True
    refused = {"ok": False, "valid": True, "digest": POLICY.digest, "problems": ["p.yaml:1: bad"]}
    assert await desk.verbs["reload"]({}) == refused


async def nothing_is_open(_: object) -> int:
    return 0


async def test_denials_returns_the_requested_number_or_20() -> None:
    desk = Desk()
    for number in range(30):
        desk.audit_log.record(AuditRecord(event=Event.REQUEST, port=number))
    counts = []
    for count in (3, "many", True):
        answer = await desk.verbs["denials"]({"count": count})
        denials = answer["denials"]
        assert isinstance(denials, list)
        counts.append(len(denials))
    assert counts == [3, 20, 20]


async def test_verify_sets_denials_apart_for_a_bounded_time() -> None:
    desk = Desk()
    refused = AuditRecord(event=Event.DNS, host=CHECKED_NAME)
    for seconds, counted in ((1, 0), (0, 1), ("x", 2), (None, 3)):
        assert await desk.verbs["verify"]({"seconds": seconds}) == {"ok": True}
        desk.audit_log.record(refused)
        assert desk.audit_log.counts == {"allowed": 0, "denied": counted, "starts": 1}
    assert len(desk.lines) == 4
    assert len(desk.audit_log.denials(9)) == 3


async def test_verify_lasts_at_most_two_minutes() -> None:
    desk = Desk()
    await desk.verbs["verify"]({"seconds": 1 << 40})
    for desk.now in (119.0, 120.0):
        desk.audit_log.record(AuditRecord(event=Event.DNS, host=CHECKED_NAME))
    assert desk.audit_log.counts == {"allowed": 0, "denied": 1, "starts": 1}
