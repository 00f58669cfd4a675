"""`agent-sandbox proxy logs`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import Following, ProjectPath, Tail
from agent_sandbox.cli.terminal.output import emit, emit_lines
from agent_sandbox.features.proxy.decisions import read_line
from agent_sandbox.features.stack.execute import require_running
from agent_sandbox.features.traffic.audit_log import read_log
from agent_sandbox.features.traffic.decision_line import decision_line
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project

Json = Annotated[bool, Option(help="Print the audit records, one JSON object per line.")]
Denied = Annotated[bool, Option(help="Show only denied requests.")]


def logs(
    *,
    path: ProjectPath = None,
    follow: Following = False,
    tail: Tail = None,
    denied: Denied = False,
    json: Json = False,
) -> int:
    """Show what the proxy allowed and denied, one line per request, including requests before the last `down`."""
    return show_decisions(open_project(path, cwd=Path.cwd()), follow=follow, tail=tail, denied=denied, json=json)


def show_decisions(project: Project, *, follow: bool, tail: int | None, denied: bool, json: bool) -> int:
    """Print the audit log of the project's stack."""
    if follow:
        require_running(project, "proxy")

    def show(text: str) -> None:
        line = read_line(text)
        if line is not None:
            if json:
                emit(text)
            else:
                emit_lines([decision_line(line)])
            sys.stdout.flush()  # for readers of a pipe

    argv = _options(follow=follow, tail=tail, denied=denied)
    try:
        read_log(project, show, *argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _options(*, follow: bool, tail: int | None, denied: bool) -> Iterator[str]:
    if follow:
        yield "--follow"
    if tail is not None:
        yield from ("--tail", str(tail))
    if denied:
        yield "--denied"
