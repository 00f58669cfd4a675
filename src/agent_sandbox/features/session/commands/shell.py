"""`agent-sandbox shell`."""

from pathlib import Path

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.features.ports.kept_ports import keep_ports
from agent_sandbox.features.secrets.secret_keeper import keep_secrets
from agent_sandbox.features.stack.execute import attach, require_agent
from agent_sandbox.features.trust.trust_gate import open_known


def shell(*, path: ProjectPath = None) -> None:
    """Open zsh in the agent container, as `dev` in /workspace."""
    project = open_known(path, cwd=Path.cwd())
    agent = require_agent(project)
    keep_secrets(project)
    keep_ports(project)
    attach(project, "zsh", container=agent)
