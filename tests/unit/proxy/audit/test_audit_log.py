import json
from contextvars import copy_context

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.audit_log import CHECKER_PORTS, AuditLog, source_port
from agent_sandbox.proxy.audit.record import AuditRecord


def make() -> tuple[AuditLog, list[bytes]]:
    written: list[bytes] = []
    return AuditLog([written.append], clock=lambda: 0.0), written


def test_every_decision_is_written_and_counted() -> None:
    audit_log, written = make()
    audit_log.record(AuditRecord(event=Event.REQUEST, decision=Effect.ALLOW, host="a.test"))
    audit_log.record(AuditRecord(event=Event.CONNECT, host="b.test"))
    assert [json.loads(line)["host"] for line in written] == ["a.test", "b.test"]
    assert audit_log.counts == {"allowed": 1, "denied": 1, "starts": 0}


def test_writes_hints_into_records_and_remembers_the_last_hints() -> None:
    audit_log, written = make()
    for size in (0, 0, 100):
        audit_log.record(AuditRecord(event=Event.REQUEST, decision=Effect.ALLOW, host="a.test", encoded=size))
    audit_log.record(AuditRecord(event=Event.HEALTH, decision=Effect.ALLOW, host="a.test", reason="x", encoded=500))
    lines = [json.loads(line) for line in written]
    assert [line.get("hint") for line in lines] == [
        None,
        None,
        "encoded data: 100 characters of the URL look like encoded data",
        None,
    ]
    assert audit_log.hinted == {"count": 1, "last": [lines[2]]}
    assert "encoded" not in lines[2]


def test_counts_failed_requests_apart_and_remembers_the_last_ones() -> None:
    audit_log, written = make()
    for number in range(7):
        audit_log.record(AuditRecord(Event.REQUEST, Effect.ALLOW, reason=f"why {number}", failed=True))
    lines = [json.loads(line) for line in written]
    assert audit_log.failed == {"count": 7, "last": lines[2:]}
    assert audit_log.counts == {"allowed": 7, "denied": 0, "starts": 0}
    assert "failed" not in lines[0]


def test_the_last_denials_are_remembered_oldest_first() -> None:
    audit_log, _ = make()
    for name in ("a", "b", "c"):
        audit_log.record(AuditRecord(event=Event.REQUEST, host=name))
    assert [line["host"] for line in audit_log.denials(2)] == ["b", "c"]
    assert audit_log.denials(0) == []


def test_writes_policy_and_tls_records_without_counting_them() -> None:
    audit_log, written = make()
    for event in (Event.HEALTH, Event.POLICY, Event.TLS):
        audit_log.record(AuditRecord(event=event))
    nothing = {"allowed": 0, "denied": 0, "starts": 0}
    assert (len(written), audit_log.counts, audit_log.denials(9)) == (2, nothing, [])


def test_writes_a_health_check_record_only_when_its_answer_changes() -> None:
    audit_log, written = make()
    for reason in ("no rule", "no rule", "the policy could not be loaded", "the policy could not be loaded", "no rule"):
        audit_log.record(AuditRecord(event=Event.HEALTH, reason=reason))
    assert [json.loads(line)["reason"] for line in written] == ["no rule", "the policy could not be loaded", "no rule"]


def test_writes_start_records_and_counts_them_separately() -> None:
    audit_log, written = make()
    for _ in range(2):
        audit_log.record(AuditRecord(event=Event.START))
    assert (len(written), audit_log.counts, audit_log.denials(9)) == (2, {"allowed": 0, "denied": 0, "starts": 2}, [])


class Verification:
    """An audit log during a verification, with clocks that the test sets."""

    def __init__(self, *, seconds: float = 9) -> None:
        self.wall, self.monotonic = 0.0, 0.0
        self.written: list[bytes] = []
        self.audit_log = AuditLog([self.written.append], clock=lambda: self.wall, monotonic=lambda: self.monotonic)
        self.audit_log.verify_for(seconds)

    def deny(self, host: str, *, port: int = 0, event: Event = Event.REQUEST) -> None:
        """Record a denial on a connection from this source port."""
        self.record(AuditRecord(event=event, host=host), port)

    def record(self, line: AuditRecord, port: int) -> None:
        """Record a line on a connection from this source port."""
        context = copy_context()
        context.run(source_port.set, port)
        context.run(self.audit_log.record, line)

    @property
    def agents(self) -> list[object]:
        """The hosts of the denials that are shown as the agent's."""
        return [line["host"] for line in self.audit_log.denials(9)]


CHECKER = CHECKER_PORTS[0]


def test_denials_of_a_verification_are_written_and_counted_apart() -> None:
    run = Verification()
    for port in (CHECKER_PORTS[0], CHECKER_PORTS[-1]):
        run.deny("probe.test", port=port)
    assert run.audit_log.counts == {"allowed": 0, "denied": 0, "starts": 2}
    assert (run.agents, len(run.written)) == ([], 2)


def test_denials_of_the_agent_during_a_verification_stay_the_agents() -> None:
    run = Verification()
    for host, port in (("a.test", 40_000), ("b.test", CHECKER_PORTS[0] - 1), ("c.test", CHECKER_PORTS[-1] + 1)):
        run.deny(host, port=port)
    run.deny("d.test", event=Event.DNS)
    assert run.agents == ["a.test", "b.test", "c.test", "d.test"]


def test_allowed_request_of_the_checker_is_counted_as_allowed() -> None:
    run = Verification()
    run.record(AuditRecord(event=Event.REQUEST, decision=Effect.ALLOW), CHECKER)
    assert run.audit_log.counts == {"allowed": 1, "denied": 0, "starts": 0}


def test_reserved_name_is_the_checkers_only_during_a_verification() -> None:
    run = Verification()
    run.deny("agent-sandbox.invalid", event=Event.DNS)
    assert run.agents == []
    run.audit_log.verify_for(0)
    run.deny("agent-sandbox.invalid", event=Event.DNS)
    assert run.agents == ["agent-sandbox.invalid"]


def test_verification_ends_by_the_monotonic_clock() -> None:
    run = Verification(seconds=9)
    run.wall, run.monotonic = -1e9, 8.9
    run.deny("a.test", port=CHECKER)
    run.monotonic = 9.0
    run.deny("b.test", port=CHECKER)
    assert run.agents == ["b.test"]


def test_reserved_ports_mean_nothing_without_a_verification() -> None:
    run = Verification(seconds=0)
    run.deny("a.test", port=CHECKER)
    assert run.agents == ["a.test"]


def test_a_sink_that_is_added_later_gets_only_later_records() -> None:
    lines: list[bytes] = []
    log = AuditLog([], clock=lambda: 0.0)
    log.record(AuditRecord(event=Event.GRANT))
    log.add_sink(lines.append)
    log.record(AuditRecord(event=Event.GRANT, reason="granted"))
    assert [json.loads(line)["reason"] for line in lines] == ["granted"]
    assert log.counts == {"allowed": 0, "denied": 0, "starts": 0}
