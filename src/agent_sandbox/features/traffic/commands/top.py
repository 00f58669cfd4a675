"""`agent-sandbox traffic top`."""

from typing import Annotated

from msgspec import to_builtins
from typer import Option

from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say, table
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.features.traffic.audit_log import Denied, Host, LogFile, Method, Since, each_record, what_is_wanted
from agent_sandbox.features.traffic.commands.list import NOTHING
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.features.traffic.totals import By, Totals
from agent_sandbox.size_text import size_text

SHOWN = 20
HEADINGS = ("HOST", ">REQUESTS", ">DENIED", ">SENT", ">RECEIVED", "LAST")

SortBy = Annotated[By, Option(help="Sort by this total.")]
Limit = Annotated[int, Option(help="Show only N hosts.", metavar="N", min=1)]


def top(  # noqa: PLR0913 - each is an option
    *,
    by: SortBy = By.REQUESTS,
    since: Since = None,
    host: Host = None,
    method: Method = None,
    denied: Denied = False,
    limit: Limit = SHOWN,
    file: LogFile = None,
    path: ProjectPath = None,
    json: Json = False,
) -> None:
    """List hosts by requests, denials, or bytes that the sandbox sent or received: bodies, or whole tunnels."""
    wanted, totals = what_is_wanted(since, host, method, denied=denied), Totals()

    def take(record: Record) -> None:
        if wanted.takes(record):
            totals.add(record)

    each_record(take, file=file, path=path)
    every = totals.top(by)
    found = every[:limit]
    if json:
        emit_json({"hosts": to_builtins(found), "all": len(every)})
        return
    rows = [
        (one.host, str(one.requests), str(one.denied), size_text(one.sent), size_text(one.received), _when(one.last))
        for one in found
    ]
    if rows:
        emit_lines(table(HEADINGS, rows, cut=0))
    if not rows:
        say(NOTHING)
    elif len(every) > len(found):
        say(f"{len(found)} of {len(every)} hosts; --limit N shows more")


def _when(time: str) -> str:
    return local_time(time, shape="%m-%d %H:%M:%S")
