"""`agent-sandbox traffic [list]`."""

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import to_builtins
from msgspec.structs import replace
from typer import Option

from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import Cell, emit, emit_lines, say, table
from agent_sandbox.cli.terminal.style import Styled
from agent_sandbox.features.proxy.decisions import asked, local_time
from agent_sandbox.features.traffic.audit_log import Denied, Host, LogFile, Method, Since, each_record, what_is_wanted
from agent_sandbox.features.traffic.record import SHORT_DIGITS, Record

SHOWN = 50
HEADINGS = ("ID", "TIME", "DECISION", "REQUEST")
REQUEST = HEADINGS.index("REQUEST")
STYLES = {"allow": "allow", "deny": "deny"}
NOTHING = "no such requests in the audit log"

Limit = Annotated[int | None, Option(help=f"The last N; by default {SHOWN}, all with --json.", metavar="N", min=1)]


def list(  # noqa: A001, PLR0913 - the command's name; each is an option
    *,
    since: Since = None,
    host: Host = None,
    method: Method = None,
    denied: Denied = False,
    limit: Limit = None,
    file: LogFile = None,
    path: ProjectPath = None,
    json: Json = False,
) -> None:
    """List requests from the audit log, the newest last. `traffic show ID` shows everything about one.

    With --json, each request is one JSON object on a line, with the fields of the audit log and the ID.
    """
    wanted = what_is_wanted(since, host, method, denied=denied)
    if json and limit is None:
        each_record(lambda record: _emit(record) if wanted.takes(record) else None, file=file, path=path)
        return
    found: deque[Record] = deque(maxlen=limit or SHOWN)
    count = 0

    def take(record: Record) -> None:
        nonlocal count
        if wanted.takes(record):
            found.append(record)
            count += 1

    each_record(take, file=file, path=path)
    if json:
        for record in found:
            _emit(record)
        return
    if found:
        emit_lines(as_text([*found]))
    if not found:
        say(NOTHING)
    elif count > len(found):
        say(f"the last {len(found)} of {count}; --limit N shows more")


def _emit(record: Record) -> None:
    import json  # noqa: PLC0415 - the option has this name

    emit(json.dumps(to_builtins(record)))


def as_text(records: Sequence[Record]) -> Sequence[Styled]:
    """Return a table; times are local, with the day if it is not today."""
    today = f"{datetime.now().astimezone():%Y-%m-%d}"
    days = {local_time(record.time, shape="%Y-%m-%d") for record in records}
    shape = "%H:%M:%S" if days == {today} else "%m-%d %H:%M:%S"
    return [*table(HEADINGS, [_row(record, shape) for record in records], cut=REQUEST)]


def _row(record: Record, shape: str) -> Sequence[Cell]:
    return (
        record.id[:SHORT_DIGITS],
        local_time(record.time, shape=shape),
        (f"{record.decision:<5} {record.status or ''}".rstrip(), STYLES.get(record.decision, "")),
        # The column is cut on the right, and the URLs of one MCP server are alike.
        f"{record.mcp}  {asked(to_builtins(replace(record, mcp='')))}" if record.mcp else asked(to_builtins(record)),
    )
