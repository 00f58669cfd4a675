"""The services of an older policy: by their names where we have them, by their hosts where we do not."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from agent_sandbox.policy.layer import Location
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policyfile.document import Value, parse_document
from agent_sandbox.policytools.importing.reading import SERVICE_KEYS, OldFile
from agent_sandbox.policytools.importing.records import BY_NAME, Record
from agent_sandbox.policytools.importing.result import Imported, Note, entry_lines
from agent_sandbox.problems import UserError

READING = {"methods": ["GET", "HEAD"]}
OURS = "`{0}` was all that can be asked of {1}: here it is what `agent-sandbox policy services show {0}` lists"
ONCE = "left out: `{0}` is named at {1}, and stands in a file once: write there what you need of both"
SURFACES = frozenset({"git", "api"})
AUTH_KEYS = frozenset({"secret", "client_shim"})
SURFACE_KEYS = frozenset({"access", "auth"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OldService:
    """An entry of `services` in our words."""

    name: str
    where: str
    value: Mapping[str, Any]

    @property
    def is_scoped(self) -> bool:
        """Whether it names single repositories."""
        return "repos" in self.value


@dataclass(slots=True, kw_only=True)
class Services:
    """The services of all files; `known` are ours, with their options where it is a mapping to their layers."""

    known: Collection[str]
    entries: list[OldService] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def read(self, old: OldFile, found: Imported) -> None:
        """Take in the services of one file."""
        for number, value in enumerate(old.section("services")):
            entry = _service(old, value, ("services", number), found)
            if entry.name not in old_hosts():
                hint = f"known are {', '.join(sorted(old_hosts()))}"
                old.refuse(f"unknown service `{entry.name}`", "services", number, hint=hint)
            if entry.value.get("merge_mode"):
                self.entries = [other for other in self.entries if other.name != entry.name]
            self.entries.append(entry)

    def put_into(self, found: Imported) -> None:
        """Write the services, and remember what they were: a wildcard beside them must not open more."""
        # Layers named a service as often as they liked, and a file does it once.
        first = {entry.name: entry for entry in reversed(self.entries)}
        for entry in self.entries:
            silent = Imported()
            made = [self._record(entry, host, silent) for host in old_hosts()[entry.name]]
            self.records += made
            if entry.name not in self.known:
                found.domains += (record.value([one.rule for one in record.taken]) for record in made)
            elif (named := first[entry.name]) is not entry:
                if named.value != entry.value:
                    found.notes.append(Note(where=entry.where, what=ONCE.format(entry.name, named.where)))
            elif self._is_taken(entry, found) and not entry.is_scoped:
                hosts = ", ".join(old_hosts()[entry.name])
                found.notes.append(Note(where=entry.where, what=OURS.format(entry.name, hosts)))

    def _is_taken(self, entry: OldService, found: Imported) -> bool:
        value = entry.name if set(entry.value) == {"name"} else dict(entry.value)
        text = "\n".join(("services:", *entry_lines(value), ""))
        try:
            parse_layer(text, name="", file="", shown="", services=self.known)
        except UserError as error:
            found.notes += (Note(where=entry.where, what=f"left out: {one.what}") for one in error.problems)
            return False
        found.services.append(value)
        return True

    def _record(self, entry: OldService, host: str, found: Imported) -> Record:
        record = Record(host=host, where=entry.where)
        if not entry.is_scoped:
            record.add(READING if entry.value.get("readonly") else None, entry.where, found)
        return record


@cache
def old_hosts() -> Mapping[str, tuple[str, ...]]:
    """Return the hosts of each service there was."""
    text = files(__package__).joinpath("services.yaml").read_text("utf-8")
    value = parse_document(text, file="services.yaml").value
    table = value if isinstance(value, dict) else {}
    return {name: tuple(map(str, hosts)) for name, hosts in table.items() if isinstance(hosts, list)}


def _service(old: OldFile, value: Value, place: Location, found: Imported) -> OldService:
    if isinstance(value, str):
        name = value.strip().lower()
        return OldService(name=name, where=old.where(*place), value={"name": name})
    values = old.mapping(value, SERVICE_KEYS, *place)
    name = old.word(values.get("name"), *place, "name").lower()
    entry: dict[str, Any] = {"name": name}
    if "merge_mode" in values:
        entry["merge_mode"] = old.word(values["merge_mode"], *place, "merge_mode").lower()
    if values.get("readonly") is True and "surfaces" not in values:
        entry["readonly"] = True
    if "repos" in values:
        entry["repos"] = old.words(values["repos"], *place, "repos")
    access = "read" if values.get("readonly") is True else "readwrite"
    for surface in old.words(values.get("surfaces", []), *place, "surfaces"):
        entry[surface] = {"access": access}
    for surface in sorted(SURFACES & values.keys()):
        entry[surface] = _surface(old, values[surface], (*place, surface), found)
    return OldService(name=name, where=old.where(*place), value=entry)


def _surface(old: OldFile, value: Value, place: Location, found: Imported) -> dict[str, Any]:
    values = old.mapping(value, SURFACE_KEYS, *place)
    surface: dict[str, Any] = {"access": old.word(values.get("access"), *place, "access").lower()}
    if "auth" in values:
        surface["auth"] = old.mapping(values["auth"], AUTH_KEYS, *place, "auth")
        found.notes.append(Note(where=old.where(*place, "auth"), what=BY_NAME))
    return surface
