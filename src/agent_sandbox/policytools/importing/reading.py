"""A policy file of the older format, read: plain values with their lines, and every problem of its shape at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_sandbox.policy.compiler.layer import Location
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.text.document import Place, Value, parse_document
from agent_sandbox.problems import Problem, UserError

ENTRY_KEYS = frozenset({"host", "merge_mode", "rules", "transform"})
RULE_KEYS = frozenset({"schemes", "scheme", "methods", "method", "path", "query"})
# How a key is written whose value is missing or not text.
EXAMPLES = {
    "host": "example.com",
    "name": "github",
    "merge_mode": "replace",
    "access": "read",
    "repos": "[owner/name]",
    "surfaces": "[git]",
    "methods": "[GET]",
    "method": "GET",
    "schemes": "[https]",
    "scheme": "https",
}
SERVICE_KEYS = frozenset({"name", "merge_mode", "readonly", "repos", "git", "api", "surfaces"})


@dataclass(slots=True, kw_only=True)
class OldFile:
    """One file: its sections, where each part stands, and what is wrong with it."""

    file: str
    value: Mapping[str, Value]
    places: Mapping[Location, Place]
    problems: list[Problem] = field(default_factory=list)

    def where(self, *location: str | int) -> str:
        """Return `FILE:LINE` of a part."""
        while location and location not in self.places:
            location = location[:-1]
        return f"{self.file}:{self.places[location].line}" if location in self.places else f"{self.file}:1"

    def refuse(self, what: str, *location: str | int, hint: str = "") -> None:
        """Remember what is wrong with a part."""
        self.problems.append(Problem(where=self.where(*location), what=what, hint=hint))

    def section(self, name: str) -> list[Value]:
        """Return the entries of a section; one that is not there has none."""
        return self.listed(self.value.get(name), name)

    def listed(self, value: Value, *location: str | int) -> list[Value]:
        """Return a list, or refuse what stands there instead."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(f"`{location[-1]}` is no list", *location)
            return []
        return value

    def mapping(self, value: Value, keys: frozenset[str], *location: str | int) -> Mapping[str, Value]:
        """Return keys and values of which all are known, or refuse what stands there instead."""
        if not isinstance(value, dict):
            self.refuse("keys and values are wanted here", *location)
            return {}
        for key in value.keys() - keys:
            self.refuse(f"unknown key `{key}`", *location, key, hint=f"known are {', '.join(sorted(keys))}")
        return value

    def word(self, value: Value, *location: str | int) -> str:
        """Return a text without space around it, or refuse what stands there instead."""
        if isinstance(value, str) and value.strip():
            return value.strip()
        key = next((str(part) for part in reversed(location) if isinstance(part, str)), "")
        hint = f"write `{key}: {EXAMPLES[key]}`" if key in EXAMPLES else ""
        if value is None or isinstance(value, str):
            self.refuse(f"`{key}` is {'missing' if value is None else 'empty'}", *location, hint=hint)
        else:
            self.refuse(f"`{key}` holds {shown(value)}, which is not text", *location, hint=hint)
        return ""

    def words(self, value: Value, *location: str | int) -> list[str]:
        """Return the texts of a list, or of one that stands for a list."""
        if isinstance(value, str):
            return [self.word(value, *location)]
        return [self.word(word, *location, number) for number, word in enumerate(self.listed(value, *location))]

    def flag(self, value: Value, *location: str | int) -> bool:
        """Return `true` or `false`, or refuse what stands there instead."""
        if not isinstance(value, bool):
            what = f"`{location[-1]}` is {shown(value)}, neither `true` nor `false`"
            self.refuse(what, *location, hint=f"write `{location[-1]}: true`, or take it out")
        return value is True


def shown(value: Value) -> str:
    """Name a value in a message, as it is written."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case int():
            return f"`{value}`"
        case str():
            return safe_repr(value)
        case list():
            return "a list"
        case _:
            return "keys and values"


def read_old(text: str, *, file: str) -> OldFile:
    """Return the file; raise UserError where it is no YAML, or of the YAML that readers differ on."""
    document = parse_document(text, file=file)
    if document.problems:
        raise UserError(document.problems)
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise UserError([Problem(where=f"{file}:1", what="is no policy: keys and values are wanted")])
    return OldFile(file=file, value=value, places=document.places)
