"""The result of an import: entries by section, and notes on changes of meaning."""

from typing import Any

from msgspec import Struct

from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.insertion import written

SECTIONS = ("services", "domains", "allow", "deny")
HEADER = "# Imported by `agent-sandbox policy import`, which printed every change of meaning."


class Note(Struct, frozen=True, kw_only=True):
    """A change of meaning at a place; `left_out` if a whole entry or rule is missing from the result."""

    where: str
    what: str
    left_out: bool = False


def left_out(where: str, what: str) -> Note:
    """Return a note that an entry or a rule is left out, and why."""
    return Note(where=where, what=f"left out: {what}", left_out=True)


class Imported(Struct, kw_only=True):
    """The entries, each a host, a line or a mapping, and the notes, in order of place."""

    services: list[Any] = []
    domains: list[Any] = []
    allow: list[str] = []
    deny: list[Any] = []
    notes: list[Note] = []

    @property
    def size(self) -> int:
        """The number of entries."""
        return sum(len(getattr(self, section)) for section in SECTIONS)

    def text(self) -> str:
        """Return the policy file."""
        lines = [HEADER, "version: 1"]
        for section in SECTIONS:
            entries = getattr(self, section)
            if entries:
                lines += ["", f"{section}:", *(line for entry in entries for line in entry_lines(entry))]
        return "\n".join((*lines, ""))


def entry_lines(entry: object) -> list[str]:
    """Return an entry as lines of block YAML, with one line per rule.

    >>> entry_lines({"host": ".a.test", "rules": [{"methods": ["GET"]}]})
    ['  - host: .a.test', '    rules:', '      - {methods: [GET]}']
    """
    if isinstance(entry, str):
        return [f"  - {written(entry)}"]
    if not isinstance(entry, dict) or "rules" not in entry:
        return [f"  - {flow(entry)}"]
    keys = [f"{key}: {flow(value)}" for key, value in entry.items() if key != "rules"]
    rules = [f"      - {flow(rule)}" for rule in entry["rules"]]
    return [f"  - {keys[0]}", *(f"    {key}" for key in keys[1:]), "    rules:", *rules]
