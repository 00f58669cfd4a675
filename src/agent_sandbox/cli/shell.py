"""`agent-sandbox shell`."""

from pathlib import Path

from agent_sandbox.backends.verbs import Exec
from agent_sandbox.cli.carry_out import backend, carry_out, require_ready
from agent_sandbox.cli.gate import open_known
from agent_sandbox.cli.options import ProjectPath
from agent_sandbox.cli.terminal import terminal
from agent_sandbox.stack.services.agent import ENTER


def shell(*, path: ProjectPath = None) -> None:
    """Open zsh in the agent's container, as `dev` in /workspace."""
    project = open_known(path, cwd=Path.cwd())
    require_ready(project, "agent")
    carry_out(backend().plan(project, Exec(argv=(ENTER, "zsh"), terminal=terminal())), quiet=True)
