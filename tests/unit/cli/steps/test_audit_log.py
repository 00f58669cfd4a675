from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.cli.steps.audit_log import each_record, require_readable_log, what_is_wanted
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.runtime.traffic.wanted import Wanted
from fake_docker import FakeDocker
from fake_stack import with_containers
from log_lines import denied

if TYPE_CHECKING:
    from agent_sandbox.runtime.traffic.record import Record

READ = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy log --file /state/log/traffic.jsonl"
LINES = (denied("GET https://a.test/"), "no json", denied("GET https://b.test/"))


def test_the_records_come_from_the_running_stack(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    with_containers(docker, proxy="unhealthy").says(READ, out="\n".join(LINES))
    found: list[Record] = []
    each_record(found.append, file=None, path=None)
    assert [record.host for record in found] == ["a.test", "b.test"]


def test_the_records_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(LINES))
    found: list[Record] = []
    each_record(found.append, file=tmp_path / "log", path=None)
    assert [record.host for record in found] == ["a.test", "b.test"]


def test_a_proxy_that_does_not_run_cannot_read_the_log(project: Path, docker: FakeDocker) -> None:
    with_containers(docker, proxy="exited")
    with pytest.raises(UserError) as caught:
        require_readable_log(open_project(project, cwd=project))
    assert str(caught.value) == (
        "app-1: the proxy is exited with code 1; the audit log is kept, but only a running proxy can read it;"
        " agent-sandbox up starts it; agent-sandbox logs proxy shows its container's output"
    )


def test_options_are_conditions() -> None:
    question = what_is_wanted("2026-01-01T00:00Z", "a.test", "get", denied=True)
    assert question == Wanted(
        since="2026-01-01T00:00:00.000Z",
        host=parse_host_pattern("a.test"),
        methods=frozenset({"GET"}),
        denied=True,
    )
