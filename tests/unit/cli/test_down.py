from pathlib import Path

from agent_sandbox.cli.down import down
from agent_sandbox.cli.errors import exit_code
from fake_docker import FakeDocker


def test_down_removes_containers_and_keeps_volumes(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    docker.says("compose")
    assert exit_code(down) == 0
    assert docker.calls == [
        "compose --project-name app-1 --file .devcontainer/docker-compose.yml down --remove-orphans",
    ]
