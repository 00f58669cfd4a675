"""`agent-sandbox traffic show ID`."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import to_builtins
from typer import Argument

from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines
from agent_sandbox.cli.terminal.style import Styled, styled
from agent_sandbox.features.proxy.decisions import asked, local_time
from agent_sandbox.features.traffic.audit_log import LogFile, each_record
from agent_sandbox.features.traffic.record import ID_DIGITS, Record
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.size_text import size_text

FEWEST_DIGITS = 4
ID = re.compile(f"[0-9a-f]{{{FEWEST_DIGITS},{ID_DIGITS}}}")
MOST = 10  # records with the same beginning of an ID

Wanted = Annotated[str, Argument(help="The ID as `agent-sandbox traffic` lists it, or its first digits.")]


def show(id: Wanted, *, file: LogFile = None, path: ProjectPath = None, json: Json = False) -> None:  # noqa: A002 - as typed
    """Show everything that the audit log has about one request: rule, reason, bytes, duration, names of secrets."""
    wanted = id.lower()
    if not ID.fullmatch(wanted):
        what = f"not the ID of a request: {safe_repr(id[:ID_DIGITS])}"
        raise UserError([Problem(where="", what=what, hint="agent-sandbox traffic lists the IDs")])
    found: list[Record] = []
    each_record(lambda one: found.append(one) if one.id.startswith(wanted) else None, file=file, path=path)
    # Two equal lines are one request twice.
    records = list({one.id: one for one in found}.values())
    if len(records) != 1:
        raise UserError([_problem(wanted, records)])
    if json:
        emit_json(to_builtins(records[0]))
    else:
        emit_lines(as_text(records[0]))


def _problem(wanted: str, found: Sequence[Record]) -> Problem:
    if not found:
        hint = "agent-sandbox traffic lists the IDs; the log drops its oldest records when it is full"
        return Problem(where="", what=f"no request in the audit log has the ID {wanted}", hint=hint)
    lines = "\n".join(f"  {one.id}  {asked(to_builtins(one))}" for one in found[:MOST])
    return Problem(
        where="",
        what=f"the IDs of {len(found)} requests begin with {wanted}:\n{lines}",
        hint="give more digits of the ID",
    )


def as_text(record: Record) -> Iterator[Styled]:
    """Yield one line per field that has a value."""
    fields = [
        ("id", record.id),
        ("time", f"{local_time(record.time)}, after {record.duration_ms:g} ms" if record.time else ""),
        ("event", record.event),
        ("request", asked(to_builtins(record))),
        ("decision", record.decision),
        ("rule", record.rule),
        ("reason", record.reason),
        ("cause", record.cause),
        ("status", "" if record.status is None else str(record.status)),
        ("sent", size_text(record.bytes_out)),
        ("received", size_text(record.bytes_in)),
        ("client", record.client),
        ("tool", record.tool),
        ("mcp", record.mcp),
        ("headers", record.headers),
        ("hint", record.hint),
        *(("secret", f"{use.secret} ({use.kind}, {use.source}, {use.age_s} s old)") for use in record.secrets),
    ]
    for name, text in fields:
        if text:
            yield styled((f"{name:<8}", "title"), f"  {text}")
