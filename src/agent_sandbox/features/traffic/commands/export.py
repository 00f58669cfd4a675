"""`agent-sandbox traffic export --har FILE | --sqlite FILE`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.atomic_file import write_file
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, say
from agent_sandbox.features.proxy.traffic import STDIN
from agent_sandbox.features.traffic.audit_log import Denied, Host, LogFile, Method, Since, each_record, what_is_wanted
from agent_sandbox.features.traffic.har import har as har_of
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.features.traffic.sqlite import MOST_BYTES, Database
from agent_sandbox.host.files import problem_of, read_bytes
from agent_sandbox.problems import Problem, UserError

STDOUT = STDIN

Har = Annotated[Path | None, Option(help="Write requests as HAR 1.2; `-` prints it.")]
Sqlite = Annotated[Path | None, Option(help="Write the records into an SQLite database, or add new ones to it.")]


def export(  # noqa: PLR0913 - each is an option
    *,
    har: Har = None,
    sqlite: Sqlite = None,
    since: Since = None,
    host: Host = None,
    method: Method = None,
    denied: Denied = False,
    file: LogFile = None,
    path: ProjectPath = None,
) -> None:
    """Write the audit log for other programs. It has no bodies, headers, queries or values of secrets.

    An existing database keeps its records, also those that the log has dropped since, and gets the new ones.
    """
    if (har is None) == (sqlite is None):
        what, hint = "name one file to write", "agent-sandbox traffic export --har FILE, or --sqlite FILE"
        raise UserError([Problem(where="", what=what, hint=hint)])
    wanted = what_is_wanted(since, host, method, denied=denied)
    if sqlite is not None:
        _sqlite(sqlite, wanted.takes, file=file, path=path)
    elif har is not None:
        records: list[Record] = []
        each_record(lambda one: records.append(one) if wanted.takes(one) else None, file=file, path=path)
        _har(har, records)


def _har(place: Path, records: Sequence[Record]) -> None:
    document = har_of(records)
    if place == STDOUT:
        emit_json(document)
        return
    _write(place, json.dumps(document, indent=1).encode())
    _report(place, len(document["log"]["entries"]), "request")


def _sqlite(place: Path, takes: Callable[[Record], bool], *, file: Path | None, path: Path | None) -> None:
    with Database(_content(place), where=str(place)) as database:
        each_record(lambda one: database.add(one) if takes(one) else None, file=file, path=path)
        _write(place, database.data())
        _report(place, database.added, "new record")


def _content(place: Path) -> bytes:
    """Return the content of an existing database, empty if there is none; a link is not followed."""
    try:
        data = read_bytes(place.parent, place.name, limit=MOST_BYTES + 1) or b""
    except OSError as error:
        raise UserError([problem_of(str(place), error)]) from error
    if len(data) > MOST_BYTES:
        what = f"larger than {MOST_BYTES >> 30} GiB"
        raise UserError([Problem(where=str(place), what=what, hint="move it away; the next export starts a new one")])
    return data


def _write(place: Path, data: bytes) -> None:
    try:
        write_file(place, data)
    except OSError as error:
        raise UserError([problem_of(str(place), error)]) from error


def _report(place: Path, count: int, noun: str) -> None:
    say(f"{place}: {count} {noun}{'' if count == 1 else 's'}")
