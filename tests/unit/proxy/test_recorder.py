from __future__ import annotations

import json

from agent_sandbox.proxy.line import Event, Line
from agent_sandbox.proxy.recorder import Recorder


def make() -> tuple[Recorder, list[bytes]]:
    written: list[bytes] = []
    return Recorder([written.append], clock=lambda: 0.0), written


def test_every_decision_is_written_and_counted() -> None:
    recorder, written = make()
    recorder.record(Line(event=Event.REQUEST, decision="allow", host="a.test"))
    recorder.record(Line(event=Event.CONNECT, host="b.test"))
    assert [json.loads(line)["host"] for line in written] == ["a.test", "b.test"]
    assert recorder.counts == {"allowed": 1, "denied": 1}


def test_the_last_denials_are_remembered_oldest_first() -> None:
    recorder, _ = make()
    for name in ("a", "b", "c"):
        recorder.record(Line(event=Event.REQUEST, host=name))
    assert [line["host"] for line in recorder.denials(2)] == ["b", "c"]
    assert recorder.denials(0) == []


def test_what_is_no_decision_on_a_request_is_written_and_not_counted() -> None:
    recorder, written = make()
    recorder.record(Line(event=Event.HEALTH))
    assert (len(written), recorder.counts, recorder.denials(9)) == (1, {"allowed": 0, "denied": 0}, [])
