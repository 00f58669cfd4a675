import json
from pathlib import Path

import pytest

from agent_sandbox.features.traffic.audit_log import each_record, read_log, what_is_wanted
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.features.traffic.wanted import Wanted
from agent_sandbox.images import proxy_name
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project
from fake_docker import FakeDocker
from fake_stack import with_containers
from log_lines import denied

READ = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy log --file /state/log/traffic.jsonl"
LINES = (denied("GET https://a.test/"), "no json", denied("GET https://b.test/"))


def test_reads_records_from_the_running_stack(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    with_containers(docker, proxy="unhealthy").says(READ, out="\n".join(LINES))
    found: list[Record] = []
    each_record(found.append, file=None, path=None)
    assert [record.host for record in found] == ["a.test", "b.test"]


def test_reads_records_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(LINES))
    found: list[Record] = []
    each_record(found.append, file=tmp_path / "log", path=None)
    assert [record.host for record in found] == ["a.test", "b.test"]


ALONE = (
    "run --rm --pull never --network none --read-only --cap-drop ALL --security-opt no-new-privileges"
    " --env HOME=/nonexistent --user 10001:10001"
    " --mount type=volume,source=app-1_log,target=/state/log,readonly,volume-nocopy"
    " --init --pids-limit 256 --tmpfs /tmp:size=64m,mode=1777 --memory 1g --memory-swap 1g"
    " --entrypoint /opt/agent-sandbox/venv/bin/python {} -P -m agent_sandbox.proxy log --file /state/log/traffic.jsonl"
)


def stopped(docker: FakeDocker, *, volumes: str = "app-1_log\n", images: str = "{}", **states: str) -> FakeDocker:
    """Have what a stack has that does not run."""
    with_containers(docker, **states).says("volume ls", out=volumes).says("network ls")
    return docker.says("ps --all --filter").says("image inspect", out=images)


@pytest.mark.parametrize(
    ("states", "image"),
    [({"proxy": "exited"}, "agent-sandbox/x:1"), ({}, proxy_name()), ({"proxy": "paused"}, "agent-sandbox/x:1")],
)
def test_the_log_of_a_stopped_stack_is_read_without_starting_it(
    project: Path, docker: FakeDocker, states: dict[str, str], image: str
) -> None:
    labels = json.dumps({"tags": [image], "labels": {}})
    stopped(docker, images=labels, **states).says("run --rm", out="\n".join(LINES))
    found: list[str] = []
    read_log(open_project(project, cwd=project), found.append, "--denied")
    assert found == [*LINES]
    assert docker.calls[-1] == f"{ALONE.format(image)} --denied"


@pytest.mark.parametrize(
    ("volumes", "problem"),
    [
        ("app-1_state\n", "app-1: no audit log yet: the stack has not run; agent-sandbox up"),
        ("app-1_log\n", f"app-1: the image {proxy_name()}, which reads the audit log, is missing; agent-sandbox build"),
    ],
)
def test_without_a_log_or_an_image_nothing_is_run(
    project: Path, docker: FakeDocker, volumes: str, problem: str
) -> None:
    stopped(docker, volumes=volumes, images="")
    with pytest.raises(UserError) as caught:
        read_log(open_project(project, cwd=project), print)
    assert str(caught.value) == problem
    assert not [call for call in docker.calls if call.startswith("run")]


def test_converts_options_to_filter_conditions() -> None:
    question = what_is_wanted("2026-01-01T00:00Z", "a.test", "get", denied=True)
    assert question == Wanted(
        since="2026-01-01T00:00:00.000Z",
        host=parse_host_pattern("a.test"),
        methods=frozenset({"GET"}),
        denied=True,
    )
