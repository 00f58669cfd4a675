from functools import partial
from pathlib import Path

import pytest

from agent_sandbox.engines.plan import RunCommand
from agent_sandbox.features.stack.execute import execute, require_agent, require_made, require_running
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import with_containers

PROJECT = Project(root=Path("/p"), name="app-1", agents=("example",), owner=Owner(), images=(), files=())


def test_executes_a_plan_or_prints_it_in_a_dry_run(
    docker: FakeDocker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("hello")
    plan = (RunCommand(argv=("docker", "hello"), cwd=tmp_path, project="x", purpose="greeting"),)
    execute(plan, dry_run=True)
    assert (capsys.readouterr(), docker.calls) == (("docker hello\n", ""), [])
    execute(plan, quiet=True)
    assert (capsys.readouterr(), docker.calls) == (("", ""), ["hello"])


@pytest.mark.parametrize(
    ("state", "made", "running", "ready"),
    [
        ("healthy", True, True, True),
        ("unhealthy", True, True, False),
        ("exited", True, False, False),
    ],
)
def test_requires_a_container_to_exist_to_run_or_to_be_ready(
    docker: FakeDocker, state: str, *, made: bool, running: bool, ready: bool
) -> None:
    with_containers(docker, agent=state)
    looks = (
        partial(require_made, PROJECT, "agent"),
        partial(require_running, PROJECT, "agent"),
        partial(require_agent, PROJECT),
    )
    outcomes = []
    for look in looks:
        try:
            outcomes.append(look().service == "agent")
        except UserError:
            outcomes.append(False)
    assert outcomes == [made, running, ready]


def test_an_unhealthy_agent_is_ready_if_the_health_check_passes_now(docker: FakeDocker) -> None:
    docker.says("exec agent0000000 /usr/local/lib/agent-sandbox/healthy")
    with_containers(docker, agent="unhealthy")
    assert require_agent(PROJECT).service == "agent"
