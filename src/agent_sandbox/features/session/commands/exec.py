"""`agent-sandbox exec -- CMD ARG...`."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from agent_sandbox.cli.framework.options import DryRun, ProjectPath
from agent_sandbox.features.stack.execute import attach, require_agent
from agent_sandbox.features.trust.trust_gate import open_known, open_unasked

# Everything after the command's name belongs to that command, even options.
CONTEXT = {"allow_interspersed_args": False}
Command = Annotated[list[str], Argument(help="The command and its arguments.")]


def exec(  # noqa: A001 - the command's name
    command: Command,
    *,
    path: ProjectPath = None,
    dry_run: DryRun = False,
) -> None:
    """Run a command in the agent container, as `dev` in /workspace, and return its exit code."""
    project = open_unasked(path, cwd=Path.cwd()) if dry_run else open_known(path, cwd=Path.cwd())
    container = None if dry_run else require_agent(project)
    attach(project, *command, container=container, dry_run=dry_run)
