"""`agent-sandbox down`."""

from pathlib import Path

from agent_sandbox.backends.verbs import Down
from agent_sandbox.cli.carry_out import backend, carry_out
from agent_sandbox.cli.lost import put_off
from agent_sandbox.cli.options import DryRun, ProjectPath
from agent_sandbox.cli.typer_options import Quiet
from agent_sandbox.runtime.installed import open_project


def down(
    *,
    path: ProjectPath = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> None:
    """Stop the stack and remove its containers; the agent's state and the shell's history stay."""
    project = open_project(path, cwd=Path.cwd())
    if not dry_run:
        put_off(project)
    carry_out(backend().plan(project, Down()), dry_run=dry_run, quiet=quiet)
