"""`agent-sandbox down`."""

from pathlib import Path

from agent_sandbox.backends.verbs import Down
from agent_sandbox.cli.framework.options import DryRun, ProjectPath
from agent_sandbox.cli.framework.typer_options import Quiet
from agent_sandbox.cli.steps.execute import backend, execute
from agent_sandbox.cli.steps.unprotected_writes import put_off
from agent_sandbox.runtime.project.installed import open_project


def down(
    *,
    path: ProjectPath = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> None:
    """Stop the stack and remove its containers; the agent's state and the shell history stay."""
    project = open_project(path, cwd=Path.cwd())
    if not dry_run:
        put_off(project)
    execute(backend().plan(project, Down()), dry_run=dry_run, quiet=quiet)
