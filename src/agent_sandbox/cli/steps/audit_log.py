"""Read the audit log for a command: the running stack's, or a file."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import ReadTraffic
from agent_sandbox.cli.framework.parameters import Option
from agent_sandbox.cli.steps.execute import backend, driver, require_made
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.project.clone_record import path_option
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.runtime.proxy.control import watch_stack
from agent_sandbox.runtime.proxy.traffic import traffic_lines
from agent_sandbox.runtime.traffic.record import Record, read_record
from agent_sandbox.runtime.traffic.wanted import Wanted, wanted

Since = Annotated[
    str | None, Option(help="Only requests since this time: `30m`, `2h`, `7d`, or a time such as 2026-01-31T10:00.")
]
Host = Annotated[str | None, Option(help="Only this host; `*.example.com` for all below it.")]
Method = Annotated[str | None, Option(help="Only these methods: `POST`, or `POST,PUT`.")]
Denied = Annotated[bool, Option(help="Only denied requests.")]
LogFile = Annotated[
    Path | None,
    Option(help="Read this audit log, `-` for standard input; by default the running stack's.", name="--file"),
]


def require_readable_log(project: Project) -> None:
    """Raise UserError unless the proxy runs: only it can read the audit log."""
    proxy = require_made(project, "proxy")
    if proxy.state != "running":
        what = f"the proxy is {proxy.condition}; the audit log is kept, but only a running proxy can read it"
        option = path_option(project.root, os.environ)
        hint = f"agent-sandbox up{option} starts it; agent-sandbox logs{option} proxy shows its container's output"
        raise UserError([Problem(where=project.name, what=what, hint=hint)])


def what_is_wanted(since: str | None, host: str | None, method: str | None, *, denied: bool) -> Wanted:
    """Return what these options ask for, with times in the local time zone."""
    return wanted(since=since, host=host, method=method, denied=denied, now=datetime.now(UTC))


def each_record(take: Callable[[Record], object], *, file: Path | None, path: Path | None) -> None:
    """Call `take` with each record of the log, the oldest first."""

    def read(text: str) -> None:
        if (record := read_record(text)) is not None:
            take(record)

    if file is not None:
        for line in traffic_lines(file):
            read(line)
        return
    project = open_project(path, cwd=Path.cwd())
    require_readable_log(project)
    watch_stack(driver(), backend().plan(project, ReadTraffic()), on_line=read)
