"""`agent-sandbox logs [SERVICE...]`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.backends.verbs import Follow, Logs
from agent_sandbox.cli.carry_out import backend, carry_out
from agent_sandbox.cli.options import ProjectPath
from agent_sandbox.cli.typer_options import Following, Tail
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.containers import containers
from agent_sandbox.runtime.installed import open_project

Services = Annotated[
    list[str] | None,
    typer.Argument(help="proxy, firewall, agent; otherwise all.", metavar="SERVICE", show_default=False),
]


def logs(
    services: Services = None,
    *,
    path: ProjectPath = None,
    follow: Following = False,
    tail: Tail = None,
) -> None:
    """Show what the stack's services print; `proxy logs` shows decisions for people."""
    project = open_project(path, cwd=Path.cwd())
    found = {container.service for container in containers(project.name)}
    if not found:
        raise UserError([Problem(where=project.name, what="the stack is not running", hint="agent-sandbox up")])
    unknown = [service for service in services or () if service not in found]
    if unknown:
        hint = f"one of: {', '.join(sorted(found))}"
        raise UserError(Problem(where=name, what="the stack has no such service", hint=hint) for name in unknown)
    verb = Logs(services=tuple(services or ()), follow=Follow.WAIT if follow else Follow.STOP, tail=tail)
    carry_out(backend().plan(project, verb), quiet=True)
