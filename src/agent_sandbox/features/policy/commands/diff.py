"""`agent-sandbox policy diff [OLD] [NEW]`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import to_builtins
from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.features.policy.file import named_policy
from agent_sandbox.features.policy.versions import load_version, read_committed, read_file, read_version
from agent_sandbox.policytools.compare.difference import Change, Difference, difference

Old = Annotated[str | None, Argument(help="A file, a git commit (main, HEAD~1), or COMMIT:PATH; by default HEAD.")]
New = Annotated[str | None, Argument(help="The newer version; by default the project's current policy.")]
ExitCode = Annotated[bool, Option(help="Exit 1 if something becomes reachable or stops being so.")]

# The texts for a change that widens, and for one that narrows.
OPENS: Mapping[str, Callable[[Change], str]] = {
    "rule": lambda change: f"+ {change.what}",
    "deny": lambda change: f"+ no longer denied: {change.what}",
    "ask": lambda change: f"+ no longer asked about: {change.what}",
    "ceiling": lambda change: f"+ no longer or less restricted by {change.what}",
    "slash": lambda change: f"+ encoded slashes in paths of {change.what}",
    "inspect": lambda change: f"+ no longer inspected: TLS to {change.what}",
    "target": lambda change: f"+ {change.what}",
    "upstream": lambda change: f"+ {change.what}",
    "budget": lambda change: f"+ no longer limited by a {change.what}",
}
STOPS: Mapping[str, Callable[[Change], str]] = {
    "rule": lambda change: f"- {change.what}",
    "deny": lambda change: f"- now denied: {change.what}",
    "ask": lambda change: f"- now asked about: {change.what}",
    "ceiling": lambda change: f"- now or more restricted by {change.what}",
    "slash": lambda change: f"- encoded slashes in paths of {change.what}",
    "inspect": lambda change: f"- inspected again: TLS to {change.what}",
    "target": lambda change: f"- {change.what}",
    "upstream": lambda change: f"- {change.what}",
    "budget": lambda change: f"- now limited by a {change.what}",
}


def diff(  # noqa: PLR0913 - each is an option
    old: Old = None,
    new: New = None,
    *,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    exit_code: ExitCode = False,
    json: Json = False,
) -> int:
    """Show which requests a new policy allows that the old one denied, and the reverse, however the two are written."""

    def find() -> Path:
        return named_policy(policy, path=path)

    before = read_version(old, find=find) if old else read_committed(find())
    after = read_version(new, find=find) if new else read_file(find())
    changes = difference(*(load_version(version, os.environ) for version in (before, after)))
    if json:
        emit_json({"old": before.name, "new": after.name, "opens": _data(changes.opens), "stops": _data(changes.stops)})
    else:
        emit_lines(as_text(changes, old=before.name, new=after.name))
    return FIXABLE if exit_code and (changes.opens or changes.stops) else DONE


def _data(changes: Sequence[Change]) -> list[dict[str, object]]:
    return [
        {"kind": change.kind, "what": change.what, **to_builtins(change.origin), "but": list(change.exceptions)}
        for change in changes
    ]


def as_text(changes: Difference, *, old: str, new: str) -> Iterator[str]:
    """Yield the difference as text: first what becomes reachable, then what stops, each with its origin."""
    yield f"{old} -> {new}"
    if not (changes.opens or changes.stops):
        yield "no difference in what is reachable"
    sides = (("becomes reachable", "allow", OPENS, changes.opens), ("stops", "deny", STOPS, changes.stops))
    for title, style, words, side in sides:
        rows = [(words[change.kind](change), change) for change in side]
        width = max((len(text) for text, _ in rows), default=0)
        if rows:
            yield styled((title, "title"))
        for text, change in rows:
            yield styled("  ", (text[:1], style), f"{text[1:]:<{width - 1}}  {change.origin}")
            yield from (f"      but {exception}" for exception in change.exceptions)
