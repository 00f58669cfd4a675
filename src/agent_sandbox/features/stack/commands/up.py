"""`agent-sandbox up`."""

import os
from pathlib import Path

from agent_sandbox.cli.framework.options import DryRun, ExtraCa, ProjectPath, Quiet, Yes
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.engines.events import Event, Unneeded
from agent_sandbox.features.stack.start_stack import report_unwritable_project, start
from agent_sandbox.features.trust.trust_gate import open_trusted, open_unasked
from agent_sandbox.project.clone_record import path_option


def up(
    *,
    path: ProjectPath = None,
    extra_ca: ExtraCa = None,
    yes: Yes = "",
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Build missing or outdated images, start the stack and wait until it is healthy.

    A stack of another version of agent-sandbox is updated first, as `init` does, unless its files were edited.

    `docker compose up -d` does the same without building.
    """
    project = open_unasked(path, cwd=Path.cwd()) if dry_run else open_trusted(path, cwd=Path.cwd(), yes=yes)
    events = list[Event]()
    code = start(project, extra_ca=extra_ca, dry_run=dry_run, quiet=quiet, tell=events.append)
    if not (code or dry_run or quiet):
        option = path_option(project.root, os.environ, cwd=Path.cwd())
        run, shell = (f"agent-sandbox {verb}{option}" for verb in ("run", "shell"))
        already = "already " if Unneeded(name=project.name) in events else ""
        say(
            *(f"{project.name} is {already}", ("up", "ok"), "; start the agent with ", (run, "command")),
            *(", or a shell with ", (shell, "command")),
        )
        report_unwritable_project(project)
    return code
