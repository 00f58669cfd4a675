import json
import shlex
from pathlib import Path

import pytest

from agent_sandbox.features.proxy.reports import State
from agent_sandbox.features.traffic.following import follow
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.project.installed import open_project
from fake_docker import FakeDocker
from fake_stack import with_containers
from log_lines import denied

WATCH = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy watch --control"


def test_follow_reports_records_state_missed_records_and_a_lost_proxy(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy")
    line = denied("GET https://a.test/\u202e", duration_ms=0.1)
    reports = (f'{{"record": {line}}}', '{"state": {"ask": ""}}', '{"dropped": 2}', '{"answer": {}}', '{"record": {}}')
    docker.says(WATCH, script="; ".join(f"echo {shlex.quote(one)}" for one in reports))
    found: list[Record] = []
    others: list[object] = []

    def stop(seconds: float | None = None) -> bool:
        raise KeyboardInterrupt(seconds)

    connection = Connection.__init__

    def make(self: Connection, *given: object, **more: object) -> None:
        connection(self, *given, **more)  # type: ignore[arg-type]
        self._over.wait = stop  # type: ignore[assignment]

    monkeypatch.setattr(Connection, "__init__", make)
    code = follow(
        open_project(None, cwd=Path.cwd()),
        on_record=found.append,
        on_missed=others.append,
        on_state=others.append,
        on_lost=lambda: others.append("gone"),
    )
    assert code == 130
    assert found == [read_record(line)]
    assert json.loads(line)["host"] == found[0].host
    assert others == [State(), 2, "gone"]
    assert "app-1: the proxy does not answer" in capsys.readouterr().err
