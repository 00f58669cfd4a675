from pathlib import Path

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.problems import UserError


def machine(cwd: Path) -> Machine:
    return Machine(path=None, cwd=cwd, driver=DRIVER)


def test_looks_up_the_docker_host_once(tmp_path: Path) -> None:
    found = machine(tmp_path)
    assert found.host is found.host


def test_finds_the_project_in_a_parent_directory(tmp_path: Path) -> None:
    assert machine(tmp_path).has_project is False
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").touch()
    assert machine(tmp_path / "src").has_project is True
    assert Machine(path=tmp_path, cwd=Path("/"), driver=DRIVER).has_project is True
    with pytest.raises(UserError, match="not a compose file of agent-sandbox"):
        assert machine(tmp_path).project.name
