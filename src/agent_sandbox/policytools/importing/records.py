"""The rules of one host in an older policy, as far as our format can express them, and the result of an import."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote_plus

from msgspec import Struct

from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.compiler.layer import Location
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policyfile.text.document import Value
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.insertion import written
from agent_sandbox.policytools.importing.reading import RULE_KEYS, OldFile
from agent_sandbox.problems import UserError

OVER_TLS = "the secret was also sent over http; here it is sent only over https"
BY_NAME = "only the name is imported: set the value with `agent-sandbox secret set`"
PREFIX = "`{0}` also matched every path that starts with it; here it matches {0} and paths below"
NEVER = frozenset({"CONNECT", "TRACE"})
SECTIONS = ("services", "domains", "allow", "deny")
HEADER = "# Imported by `agent-sandbox policy import`, which printed every change of meaning."

type Rule = dict[str, Any]


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


class Taken(Struct, frozen=True, kw_only=True):
    """A rule in our format, None for every request, and its conditions."""

    rule: Rule | None
    conditions: Conditions


class Record(Struct, kw_only=True):
    """A host, `x` or `.x`, and its rules that could be imported."""

    host: str
    where: str
    # The service it comes from; empty for an entry of `domains`.
    service: str = ""
    replaces: bool = False
    transform: Value = None
    taken: list[Taken] = []

    def add(self, rule: Rule | None, where: str, found: Imported) -> None:
        """Import a rule, or note why it is invalid here."""
        try:
            (conditions,) = conditions_of([self.value([rule])])
        except UserError as error:
            found.notes += (left_out(where, problem.what) for problem in error.problems)
            return
        self.taken.append(Taken(rule=rule, conditions=conditions))

    def takes(self, asked: Conditions) -> bool:
        """Return whether one rule allowed everything that matches the conditions."""
        return any(covers(one.conditions, asked) for one in self.taken)

    def value(self, rules: Sequence[Rule | None]) -> object:
        """Return the entry with these rules."""
        entry: Rule = {"host": self.host}
        if self.replaces:
            entry["merge_mode"] = "replace"
        if self.transform is not None:
            entry["transform"] = self.transform
        if None not in rules:
            entry["rules"] = list(rules)
        return entry if len(entry) > 1 else self.host


def conditions_of(entries: Iterable[object]) -> list[Conditions]:
    """Return the conditions of entries with one rule each; raise UserError with every problem."""
    text = "\n".join(("domains:", *(line for entry in entries for line in entry_lines(entry)), ""))
    layer = parse_layer(text, name="", file="", shown="", services=())
    return [rule.conditions for rule in expand(layer, {}).rules]


def old_rule(old: OldFile, value: Value, place: Location, found: Imported) -> Rule:
    """Return a rule in our format."""
    values = old.mapping(value, RULE_KEYS, *place)
    rule: Rule = {}
    for name, single, spell in (("methods", "method", str.upper), ("schemes", "scheme", str.lower)):
        written = [key for key in (name, single) if key in values]
        words = [spell(word) for key in written for word in old.words(values[key], *place, key)]
        if written and not words:
            old.refuse(f"`{written[0]}` is empty", *place, written[0])
        if written:
            rule[name] = list(dict.fromkeys(words))
    if set(rule.get("methods", ())) & NEVER:
        found.notes.append(Note(where=old.where(*place), what="left out: CONNECT and TRACE, which a rule cannot allow"))
        rule["methods"] = [method for method in rule["methods"] if method not in NEVER]
    if "path" in values:
        rule["path"] = values["path"]
    if "query" in values:
        rule["query"] = _query(old, values["query"], (*place, "query"))
    if not values:
        old.refuse("a rule without conditions", *place, hint="to allow everything on a host, write only the host")
    path = values.get("path")
    prefix = path.get("prefix") if isinstance(path, dict) else None
    if isinstance(prefix, str) and not prefix.endswith("/"):
        found.notes.append(Note(where=old.where(*place, "path"), what=PREFIX.format(prefix)))
    return rule


def _query(old: OldFile, value: Value, place: Location) -> Value:
    """Return a query in our format: the older one was percent-encoded, ours is decoded."""
    exact = value.get("exact") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(exact, dict):
        return value
    read: dict[str, Value] = {}
    for name, values in exact.items():
        words = values if isinstance(values, list) else [values]
        decoded = [_decoded(old, one, (*place, "exact", name)) for one in words]
        key = str(_decoded(old, name, (*place, "exact", name)))
        known = read.get(key)
        read[key] = [*(known if isinstance(known, list) else []), *decoded]
    return {**value, "exact": read}


def _decoded(old: OldFile, value: Value, place: Location) -> Value:
    if not isinstance(value, str):
        return value
    try:
        return unquote_plus(value, errors="strict")
    except UnicodeDecodeError:
        old.refuse(f"{safe_repr(value)} is not UTF-8 when decoded", *place, hint="remove the parameter")
        return value
