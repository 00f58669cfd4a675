"""`agent-sandbox logs [SERVICE...]`."""

import json as jsonlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace
from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import Following, ProjectPath, Tail
from agent_sandbox.cli.terminal.output import emit
from agent_sandbox.counted import counted
from agent_sandbox.features.proxy.commands.logs import Denied, Json, show_decisions
from agent_sandbox.features.stack.execute import driver, not_running
from agent_sandbox.features.stack.refusals import NOT_COUNTED, read_refusals
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project

ERASE = "\x1b[2K"
Services = Annotated[
    list[str] | None,
    Argument(help="proxy, firewall, agent, or a service beside them; with --raw by default all.", metavar="SERVICE"),
]

Raw = Annotated[bool, Option(help="Show the output of the containers; SERVICE implies it.")]
Firewall = Annotated[bool, Option(help="Show what the firewall refused in the last day, one line per destination.")]
SHAPE = "%Y-%m-%d %H:%M:%S"


def completions(*before: str) -> tuple[str, ...]:
    """Return the stack's containers, for shell completion."""
    return tuple(service for service in ("proxy", "firewall", "agent") if service not in before)


def logs(  # noqa: PLR0913 - each is an option
    services: Services = None,
    *,
    path: ProjectPath = None,
    follow: Following = False,
    tail: Tail = None,
    denied: Denied = False,
    raw: Raw = False,
    firewall: Firewall = False,
    json: Json = False,
) -> int:
    """Show what the proxy allowed and denied, as `proxy logs` does, or with `--raw` the output of the containers.

    `--firewall` shows what was refused before it reached the proxy: connections to an address or a port, and UDP.
    """
    if firewall or services or raw:
        _require_plain(services, follow=follow, firewall=firewall, raw=raw, denied=denied, json=json)
    project = open_project(path, cwd=Path.cwd())
    if firewall:
        return show_refusals(project, tail=tail, json=json)
    if services or raw:
        return _show_output(project, services or (), follow=follow, tail=tail)
    return show_decisions(project, follow=follow, tail=tail, denied=denied, json=json)


def _show_output(project: Project, services: Sequence[str], *, follow: bool, tail: int | None) -> int:
    found = {container.service for container in driver().observe(project.name)}
    if not found:
        raise UserError([not_running(project)])
    unknown = [service for service in services if service not in found]
    if unknown:
        hint = f"one of: {', '.join(sorted(found))}"
        raise UserError(Problem(where=name, what="the stack has no such container", hint=hint) for name in unknown)
    command = driver().logs(project, *services, follow=follow, tail=tail)
    try:
        done = command.watch(on_line=show)
    except KeyboardInterrupt:
        return INTERRUPTED
    if done.code != 0:
        raise UserError([driver().explain(done.out, doing=str(command))])
    return DONE


def _require_plain(  # noqa: PLR0913 - the command's options
    services: Sequence[str] | None, *, follow: bool, firewall: bool, raw: bool, denied: bool, json: bool
) -> None:
    """Raise UserError for options of another kind of log."""
    if firewall and (services or follow or raw or denied):
        what = "takes no container names and no --follow, --raw or --denied"
        raise UserError([Problem(where="--firewall", what=what, hint="agent-sandbox logs --firewall")])
    if not firewall and (denied or json):
        given = "--denied" if denied else "--json"
        hint = f"agent-sandbox logs {given}"
        raise UserError([Problem(where=given, what="the output of containers has no such lines", hint=hint)])


def show_refusals(project: Project, *, tail: int | None, json: bool) -> int:
    """Print what the firewall refused, the last one last."""
    found = read_refusals(driver(), driver().observe(project.name))
    if found is None:
        raise UserError([replace(not_running(project), what="the firewall is not running")])
    if not found.counted:
        what, _, hint = NOT_COUNTED.partition("; ")
        raise UserError([Problem(where="firewall", what=what, hint=hint)])
    for one in found.last[-tail:] if tail else found.last if tail is None else ():
        emit(jsonlib.dumps(one.as_json()) if json else one.as_text(shape=SHAPE))
    if found.ipv6 and not json:
        emit(f"IPv6: {counted(found.ipv6, 'packet')} had no route, including those of the sandbox's own checks")
    return DONE


def show(line: str) -> None:
    """Print a line without terminal control sequences, which an agent could print and the engine's command prepends."""
    emit(line.removeprefix(ERASE))
    sys.stdout.flush()  # for readers of a pipe
