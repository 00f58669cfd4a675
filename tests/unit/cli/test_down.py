from pathlib import Path

from agent_sandbox.cli.down import down
from agent_sandbox.cli.framework.errors import exit_code
from fake_docker import FakeDocker
from fake_stack import compose_line


def test_down_removes_containers_and_keeps_volumes(project: Path, docker: FakeDocker) -> None:
    docker.says("ps --all").says("compose")
    assert exit_code(down) == 0
    assert docker.calls[1:] == [f"{compose_line(project)} down --remove-orphans"]
