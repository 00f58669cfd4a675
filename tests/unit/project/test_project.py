from pathlib import Path

from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner


def test_the_policy_is_in_the_devcontainer_directory() -> None:
    project = Project(root=Path("/p"), name="p-1", agents=("example",), owner=Owner(), images=(), files=())
    assert project.policy == Path("/p/.devcontainer/policy.yaml")
