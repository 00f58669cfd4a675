import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import INTERRUPTED, exit_code
from agent_sandbox.features.traffic.commands import spans as subject
from agent_sandbox.features.traffic.commands.spans import spans
from agent_sandbox.features.traffic.record import read_record
from agent_sandbox.project.project import Project
from log_lines import denied
from post_receiver import Receiver
from table_tests import each


def test_sends_records_as_spans_until_interrupted(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_record(denied("GET https://a.test/"))
    assert project.exists()
    assert found

    def follow(project: Project, *, on_record: Callable[[object], None], on_missed: Callable[[int], None]) -> int:
        assert project.name == "app-1"
        on_record(found)
        on_missed(3)
        return INTERRUPTED

    monkeypatch.setattr(subject, "follow", follow)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-a=b%20c, x-d = e=f ,,")
    with Receiver() as receiver:
        assert exit_code(lambda: spans(to=f"http://127.0.0.1:{receiver.port}")) == INTERRUPTED
        head, body = receiver.next()
    assert "\r\nx-a: b c\r\nx-d: e=f\r\n" in head
    assert found.id in json.dumps(json.loads(body))
    assert capsys.readouterr().err.splitlines() == [
        f"app-1: spans go to http://127.0.0.1:{receiver.port}; Ctrl-C ends this",
        "1 span sent, 3 dropped",
    ]


@each(
    ("to", "what"),
    [
        ("", "not a URL"),
        ("ftp://a.test", "not a URL"),
        ("http://ana:x@a.test", "the URL has a user name"),
    ],
)
def test_rejects_an_invalid_endpoint(to: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: spans(to=to)) == 1
    assert capsys.readouterr().err.startswith(f"error: --to: {what}\n  hint: ")
