"""`agent-sandbox proxy logs`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_sandbox.cli.carry_out import require_made
from agent_sandbox.cli.errors import DONE, INTERRUPTED
from agent_sandbox.cli.options import ProjectPath
from agent_sandbox.cli.output import emit
from agent_sandbox.cli.typer_options import Following, Tail
from agent_sandbox.runtime.containers import Container, follow_logs
from agent_sandbox.runtime.decisions import as_text, is_probe, read_line
from agent_sandbox.runtime.installed import open_project

Json = Annotated[bool, typer.Option("--json", help="Print the proxy's own lines, one JSON object each.")]
Denied = Annotated[bool, typer.Option("--denied", help="Only what was denied.")]


def logs(
    *,
    path: ProjectPath = None,
    follow: Following = False,
    tail: Tail = None,
    denied: Denied = False,
    json: Json = False,
) -> int:
    """Show what the proxy allowed and denied, one line a request."""
    project = open_project(path, cwd=Path.cwd())

    proxy = require_made(project, "proxy")
    skip = 0

    def show(text: str) -> None:
        nonlocal skip
        line = read_line(text)
        if line is None or not wanted(line, denied=denied):
            return
        if skip > 0:
            skip -= 1
            return
        emit(text if json else as_text(line))
        sys.stdout.flush()  # who reads on follows along

    try:
        if tail is not None:  # docker's own --tail would count health checks, and show nothing of a quiet hour
            skip = _count(proxy, denied=denied) - tail
        follow_logs(proxy, on_line=show, follow=follow)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _count(proxy: Container, *, denied: bool) -> int:
    found: list[bool] = []

    def look(text: str) -> None:
        line = read_line(text)
        found.append(line is not None and wanted(line, denied=denied))

    follow_logs(proxy, on_line=look, follow=False)
    return sum(found)


def wanted(line: Mapping[str, Any], *, denied: bool) -> bool:
    """Return whether a line is to be shown; what the stack asks of itself never is."""
    return not is_probe(line) and (not denied or line["decision"] == "deny")
