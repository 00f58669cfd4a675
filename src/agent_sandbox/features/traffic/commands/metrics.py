"""`agent-sandbox traffic metrics [--listen ADDRESS:PORT]`."""

import re
import threading
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.cli.framework.errors import DONE
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import emit, say
from agent_sandbox.features.traffic.audit_log import LogFile, each_record
from agent_sandbox.features.traffic.metrics_server import MetricsServer
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project

PACKAGE = "prometheus_client"
ADDRESS = re.compile(r"(?:(?P<host>[0-9.]+):)?(?P<port>[0-9]{1,5})")
LOOPBACK = "127.0.0.1"
OPEN = "everyone who can connect to {} can read the names of the hosts"

Listen = Annotated[
    str,
    Option(help="Serve the metrics at /metrics until Ctrl-C; a port alone means 127.0.0.1.", metavar="[ADDRESS:]PORT"),
]


def metrics(*, listen: Listen = "", file: LogFile = None, path: ProjectPath = None) -> int:
    """Print metrics of the audit log for Prometheus, or serve those of the running stack from now on.

    The metrics count requests, bytes and answers. They contain no path, query or secret. This needs the extra `metrics`
    of agent-sandbox.
    """
    if file and listen:
        what = "--listen serves the metrics of a running stack"
        raise UserError([Problem(where="--file", what=what, hint="leave one of them out")])
    if find_spec(PACKAGE) is None:
        hint = "install agent-sandbox with the extra `metrics`; agent-sandbox traffic top --json prints totals"
        raise UserError(
            [Problem(where="agent-sandbox traffic metrics", what=f"the package {PACKAGE} is not installed", hint=hint)]
        )
    address = _address(listen) if listen else None
    if address:
        return _serve(address, path)
    from agent_sandbox.features.traffic.metrics import Metrics  # noqa: PLC0415 - needs the package

    found = Metrics("" if file else open_project(path, cwd=Path.cwd()).name)
    each_record(found.add, file=file, path=path)
    emit(found.text().decode().rstrip("\n"))
    return DONE


def _address(text: str) -> tuple[str, int]:
    found = ADDRESS.fullmatch(text)
    with suppress(ValueError):
        if found and int(found["port"]) <= 65_535:
            return str(IPv4Address(found["host"] or LOOPBACK)), int(found["port"])
    hint = "write a port, such as 9464, or an IPv4 address of this machine with one"
    raise UserError([Problem(where="--listen", what=f"not an address: {safe_repr(text)}", hint=hint)])


def _serve(address: tuple[str, int], path: Path | None) -> int:
    from agent_sandbox.features.traffic.following import follow  # noqa: PLC0415 - only then
    from agent_sandbox.features.traffic.metrics import Metrics  # noqa: PLC0415 - needs the package

    project = open_project(path, cwd=Path.cwd())
    found = Metrics(project.name)
    try:
        server = MetricsServer(address, found.text)
    except OSError as error:
        what = f"cannot listen at {address[0]}:{address[1]}: {(error.strerror or str(error)).lower()}"
        raise UserError([Problem(where="--listen", what=what, hint="choose another port")]) from error
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            say(f"{project.name}: {server.url} has the metrics; Ctrl-C ends this")
            if not IPv4Address(address[0]).is_loopback:
                say(("warning:", "warn"), f" {OPEN.format(address[0])}")
            return follow(
                project,
                on_record=found.add,
                on_missed=found.missed,
                on_state=found.state,
                on_lost=lambda: found.connected(connected=False),
            )
        finally:
            server.shutdown()
