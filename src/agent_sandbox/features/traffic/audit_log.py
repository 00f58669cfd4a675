"""Read the audit log for a command: a stack's, or a file."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace
from typer import Option

from agent_sandbox.engines.container import Container
from agent_sandbox.engines.place import Helper, Role, Store
from agent_sandbox.features.proxy.control import read_traffic
from agent_sandbox.features.proxy.traffic import traffic_lines
from agent_sandbox.features.stack.execute import driver, not_running
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.traffic.wanted import Wanted, wanted
from agent_sandbox.images import proxy_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import path_option
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.stack.containers import LOG, LOG_KEY

Since = Annotated[
    str | None, Option(help="Only requests since this time: `30m`, `2h`, `7d`, or a time such as 2026-01-31T10:00.")
]
Host = Annotated[str | None, Option(help="Only this host; `*.example.com` for all below it.")]
Method = Annotated[str | None, Option(help="Only these methods: `POST`, or `POST,PUT`.")]
Denied = Annotated[bool, Option(help="Only denied requests.")]
LogFile = Annotated[
    Path | None,
    Option(help="Read this audit log, `-` for standard input; by default the stack's."),
]


def read_log(project: Project, on_line: Callable[[str], None], *argv: str) -> None:
    """Pass on each line of the stack's audit log; `argv` are options of the proxy's command.

    A stack that does not run is not started: a container without a network reads the volume.
    """
    proxy = next((one for one in driver().observe(project.name) if one.service == "proxy"), None)
    runs = proxy is not None and proxy.state == "running"
    place = Role(project=project, service="proxy") if runs else _helper(project, proxy)
    read_traffic(driver(), place, *argv, on_line=on_line)


def _helper(project: Project, proxy: Container | None) -> Helper:
    volume = f"{project.name}_{LOG_KEY}"
    if volume not in driver().leftovers(project.name)["volumes"]:
        raise UserError([replace(not_running(project), what="no audit log yet: the stack has not run")])
    image = proxy.image if proxy else proxy_name()
    if not driver().images((image,)):
        what = f"the image {image}, which reads the audit log, is missing"
        option = path_option(project.root, os.environ, cwd=Path.cwd())
        raise UserError([Problem(where=project.name, what=what, hint=f"agent-sandbox build{option}")])
    return Helper(project=project, image=image, stores=(Store(volume=volume, at=str(Path(LOG).parent)),))


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
    read_log(open_project(path, cwd=Path.cwd()), read)
