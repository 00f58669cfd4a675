"""What an import comes to: entries by section, and notes on what means something else now."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from agent_sandbox.policyfile.scalars import Doubtful, plain_value
from agent_sandbox.policytools.insertion import written

SECTIONS = ("services", "domains", "allow")
PLAIN = re.compile(r"[A-Za-z0-9./_][A-Za-z0-9./_-]*")
HEADER = "# Imported by `agent-sandbox policy import`. What means something else here was said while it ran."


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A place, and what changes there."""

    where: str
    what: str


@dataclass(slots=True, kw_only=True)
class Imported:
    """The entries, each a host, a line, or keys and values; and the notes, in the order of the places."""

    services: list[Any] = field(default_factory=list)
    domains: list[Any] = field(default_factory=list)
    allow: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def text(self) -> str:
        """Return the policy file."""
        lines = [HEADER, "version: 1"]
        for section in SECTIONS:
            entries = getattr(self, section)
            if entries:
                lines += ["", f"{section}:", *(line for entry in entries for line in entry_lines(entry))]
        return "\n".join((*lines, ""))


def entry_lines(entry: object) -> list[str]:
    """Return an entry as lines of block YAML; its rules stand on a line each.

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


def flow(value: object) -> str:
    """Return a value as flow YAML.

    >>> flow({"path": {"exact": "/a b"}, "methods": ["GET"], "on": True})
    '{path: {exact: "/a b"}, methods: [GET], "on": true}'
    """
    match value:
        case dict():
            return f"{{{', '.join(f'{flow(key)}: {flow(inner)}' for key, inner in value.items())}}}"
        case list():
            return f"[{', '.join(map(flow, value))}]"
        case bool():
            return str(value).lower()
    return _word(str(value))


def _word(text: str) -> str:
    try:
        plain = PLAIN.fullmatch(text) and plain_value(text) == text
    except Doubtful:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)
