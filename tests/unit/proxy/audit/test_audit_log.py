from __future__ import annotations

import json

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.audit_log import AuditLog
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


def test_the_last_denials_are_remembered_oldest_first() -> None:
    audit_log, _ = make()
    for name in ("a", "b", "c"):
        audit_log.record(AuditRecord(event=Event.REQUEST, host=name))
    assert [line["host"] for line in audit_log.denials(2)] == ["b", "c"]
    assert audit_log.denials(0) == []


def test_what_is_no_decision_on_a_request_is_written_and_not_counted() -> None:
    audit_log, written = make()
    for event in (Event.HEALTH, Event.POLICY, Event.TLS):
        audit_log.record(AuditRecord(event=event))
    nothing = {"allowed": 0, "denied": 0, "starts": 0}
    assert (len(written), audit_log.counts, audit_log.denials(9)) == (2, nothing, [])


def test_the_health_check_leaves_a_line_when_its_answer_has_changed() -> None:
    audit_log, written = make()
    for reason in ("no rule", "no rule", "the policy could not be loaded", "the policy could not be loaded", "no rule"):
        audit_log.record(AuditRecord(event=Event.HEALTH, reason=reason))
    assert [json.loads(line)["reason"] for line in written] == ["no rule", "the policy could not be loaded", "no rule"]


def test_what_a_start_asks_leaves_its_line_and_is_counted_for_itself() -> None:
    audit_log, written = make()
    for _ in range(2):
        audit_log.record(AuditRecord(event=Event.START))
    assert (len(written), audit_log.counts, audit_log.denials(9)) == (2, {"allowed": 0, "denied": 0, "starts": 2}, [])


def test_denials_of_a_verification_are_written_and_counted_apart() -> None:
    now = [0.0]
    written: list[bytes] = []
    audit_log = AuditLog([written.append], clock=lambda: now[0])
    audit_log.verify_for(9)
    audit_log.record(AuditRecord(event=Event.REQUEST, host="a.test"))
    audit_log.record(AuditRecord(event=Event.REQUEST, decision=Effect.ALLOW))
    now[0] = 9.0
    audit_log.record(AuditRecord(event=Event.REQUEST, host="b.test"))
    assert audit_log.counts == {"allowed": 1, "denied": 1, "starts": 1}
    assert [line["host"] for line in audit_log.denials(9)] == ["b.test"]
    assert len(written) == 3
