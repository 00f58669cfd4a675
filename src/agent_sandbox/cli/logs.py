"""`agent-sandbox logs [SERVICE...]`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.backends.verbs import Follow, Logs
from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.framework.typer_options import Following, Tail
from agent_sandbox.cli.steps.execute import backend, driver
from agent_sandbox.cli.terminal.output import emit
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.project.installed import open_project

ERASE = "\x1b[2K"
Services = Annotated[
    list[str] | None,
    typer.Argument(help="proxy, firewall or agent; by default all.", metavar="SERVICE", show_default=False),
]


def completions(*before: str) -> tuple[str, ...]:
    """Return the stack's containers, for shell completion."""
    return tuple(service for service in ("proxy", "firewall", "agent") if service not in before)


def logs(
    services: Services = None,
    *,
    path: ProjectPath = None,
    follow: Following = False,
    tail: Tail = None,
) -> int:
    """Show the output of the stack's containers; `proxy logs` shows the proxy's decisions."""
    project = open_project(path, cwd=Path.cwd())
    found = {container.service for container in driver().observe(project.name)}
    if not found:
        raise UserError([Problem(where=project.name, what="the stack is not running", hint="agent-sandbox up")])
    unknown = [service for service in services or () if service not in found]
    if unknown:
        hint = f"one of: {', '.join(sorted(found))}"
        raise UserError(Problem(where=name, what="the stack has no such container", hint=hint) for name in unknown)
    verb = Logs(services=tuple(services or ()), follow=Follow.WAIT if follow else Follow.STOP, tail=tail)
    try:
        driver().pass_on(backend().plan(project, verb), on_line=show)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def show(line: str) -> None:
    """Print a line without terminal control sequences, which an agent could print and the engine's command prepends."""
    emit(line.removeprefix(ERASE))
    sys.stdout.flush()  # for readers of a pipe
