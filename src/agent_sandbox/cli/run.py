"""`agent-sandbox run [-- ARG...]`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.backends.verbs import Exec
from agent_sandbox.cli.framework.options import DryRun, ProjectPath, Yes
from agent_sandbox.cli.framework.typer_options import BaseImage, ExtraCa
from agent_sandbox.cli.steps.execute import backend, execute
from agent_sandbox.cli.steps.start_stack import report_unwritable_project, start
from agent_sandbox.cli.steps.trust_gate import open_trusted, open_unasked
from agent_sandbox.cli.terminal.tty import terminal
from agent_sandbox.resources import data_root
from agent_sandbox.stack.services.agent import ENTER

Arguments = Annotated[
    list[str] | None, typer.Argument(help="Arguments for the agent's command, after `--`.", metavar="ARG")
]


def run(  # noqa: PLR0913 - each is an option
    arguments: Arguments = None,
    *,
    path: ProjectPath = None,
    base_image: BaseImage = "",
    extra_ca: ExtraCa = None,
    yes: Yes = "",
    dry_run: DryRun = False,
) -> int:
    """Start the stack as `up` does, then the agent in it, and return the agent's exit code."""
    project = open_unasked(path, cwd=Path.cwd()) if dry_run else open_trusted(path, cwd=Path.cwd(), yes=yes)
    code = start(project, base_image=base_image, extra_ca=extra_ca, dry_run=dry_run)
    if code:
        return code
    if not dry_run:
        report_unwritable_project(project)
    command = load_manifest(data_root() / "templates", project.agent).command
    agent = Exec(argv=(ENTER, *command, *(arguments or ())), terminal=terminal())
    execute(backend().plan(project, agent), dry_run=dry_run, quiet=True)
    return code
