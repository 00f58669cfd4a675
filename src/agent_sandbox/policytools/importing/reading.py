"""Read a policy file of the older format into plain values with line numbers, and collect its problems."""

from collections.abc import Mapping

from msgspec import Struct

from agent_sandbox.policy.compiler.layer import Location
from agent_sandbox.policyfile.parse.checking import shown
from agent_sandbox.policyfile.text.document import Place, Value, parse_document
from agent_sandbox.problems import Problem, UserError

ENTRY_KEYS = frozenset({"host", "merge_mode", "rules", "transform"})
RULE_KEYS = frozenset({"schemes", "scheme", "methods", "method", "path", "query"})
# Example values for hints.
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


class OldFile(Struct, kw_only=True):
    """A file with its sections, the place of each part, and its problems."""

    file: str
    value: Mapping[str, Value]
    places: Mapping[Location, Place]
    problems: list[Problem] = []

    def where(self, *location: str | int) -> str:
        """Return `FILE:LINE` of a part."""
        while location and location not in self.places:
            location = location[:-1]
        return f"{self.file}:{self.places[location].line}" if location in self.places else f"{self.file}:1"

    def refuse(self, what: str, *location: str | int, hint: str = "") -> None:
        """Record a problem with a part."""
        self.problems.append(Problem(where=self.where(*location), what=what, hint=hint))

    def section(self, name: str) -> list[Value]:
        """Return the entries of a section, none if it is missing."""
        return self.listed(self.value.get(name), name)

    def listed(self, value: Value, *location: str | int) -> list[Value]:
        """Return the value if it is a list, otherwise record a problem."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(f"`{location[-1]}` has to be a list", *location)
            return []
        return value

    def mapping(self, value: Value, keys: frozenset[str], *location: str | int) -> Mapping[str, Value]:
        """Return the value if it is a mapping, otherwise record a problem. Record unknown keys as well."""
        if not isinstance(value, dict):
            self.refuse("keys and values expected here", *location)
            return {}
        for key in value.keys() - keys:
            self.refuse(f"unknown key `{key}`", *location, key, hint=f"known: {', '.join(sorted(keys))}")
        return value

    def word(self, value: Value, *location: str | int) -> str:
        """Return the value if it is text, stripped, otherwise record a problem."""
        if isinstance(value, str) and value.strip():
            return value.strip()
        key = next((str(part) for part in reversed(location) if isinstance(part, str)), "")
        hint = f"write `{key}: {EXAMPLES[key]}`" if key in EXAMPLES else ""
        if value is None or isinstance(value, str):
            self.refuse(f"`{key}` is {'missing' if value is None else 'empty'}", *location, hint=hint)
        else:
            self.refuse(f"`{key}` has to be text, not {shown(value)}", *location, hint=hint)
        return ""

    def words(self, value: Value, *location: str | int) -> list[str]:
        """Return the texts of a list, or a single text as a list."""
        if isinstance(value, str):
            return [self.word(value, *location)]
        return [self.word(word, *location, number) for number, word in enumerate(self.listed(value, *location))]

    def flag(self, value: Value, *location: str | int) -> bool:
        """Return the value if it is `true` or `false`, otherwise record a problem."""
        if not isinstance(value, bool):
            what = f"`{location[-1]}` has to be `true` or `false`, not {shown(value)}"
            self.refuse(what, *location, hint=f"write `{location[-1]}: true`, or remove it")
        return value is True


def read_old(text: str, *, file: str) -> OldFile:
    """Return the file; raise UserError for invalid YAML, or YAML on which parsers differ."""
    document = parse_document(text, file=file)
    if document.problems:
        raise UserError(document.problems)
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        raise UserError([Problem(where=f"{file}:1", what="not a policy: keys and values expected")])
    return OldFile(file=file, value=value, places=document.places)
