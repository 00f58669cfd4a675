"""What an older policy allows: the services, by our name or as their hosts, and the most specific host that applies."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.compiler.layer import Layer, Location
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.service_options import is_repository
from agent_sandbox.policy.http.query import query_pattern
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, parse_path_pattern
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policyfile.text.document import Value, parse_document
from agent_sandbox.policytools.importing.reading import SERVICE_KEYS, OldFile
from agent_sandbox.policytools.importing.records import BY_NAME, Imported, Note, Record, Taken, entry_lines, left_out
from agent_sandbox.problems import UserError

READING = {"methods": ["GET", "HEAD"]}
OURS = "`{0}` allowed every request to {1}; here it allows what `agent-sandbox policy services show {0}` lists"
GIT = "`git` with named repositories also allows large files (git-lfs) and URLs without `.git`"
ONCE = "`{0}` is already named at {1}, and a file can name it only once: put the options of both there"
UNKNOWN = "unknown service {}; name its hosts under `domains` (known: {})"
# What `repos` allowed of each part: access levels, methods, kind of path, path, and git service.
type Asked = tuple[tuple[str, ...], tuple[str, ...] | None, PathKind, str, str]
READ, WRITE = ("GET", "HEAD"), ("POST",)
BOTH, MOST = ("read", "readwrite"), ("readwrite",)
SCOPED: Mapping[str, tuple[str, Sequence[Asked]]] = {
    "git": (
        "github.com",
        (
            (BOTH, READ, PathKind.EXACT, "/{}.git/info/refs", "git-upload-pack"),
            (BOTH, WRITE, PathKind.EXACT, "/{}.git/git-upload-pack", ""),
            (MOST, READ, PathKind.EXACT, "/{}.git/info/refs", "git-receive-pack"),
            (MOST, WRITE, PathKind.EXACT, "/{}.git/git-receive-pack", ""),
        ),
    ),
    "api": (
        "api.github.com",
        (
            (("read",), READ, PathKind.PREFIX, "/repos/{}", ""),
            (MOST, None, PathKind.PREFIX, "/repos/{}", ""),
        ),
    ),
}
SURFACES = frozenset({"git", "api"})
AUTH_KEYS = frozenset({"secret", "client_shim"})
SURFACE_KEYS = frozenset({"access", "auth"})
type Records = Mapping[str, Sequence[Record]]


class OldService(Struct, frozen=True, kw_only=True):
    """An entry of `services` in our format, and the records that it meant."""

    name: str
    where: str
    value: Mapping[str, Any]
    records: Sequence[Record] = ()

    @property
    def is_scoped(self) -> bool:
        """Whether it names single repositories."""
        return "repos" in self.value

    @property
    def written(self) -> Any:  # noqa: ANN401 - a name, or keys and values
        """The entry for our policy file."""
        return self.name if set(self.value) == {"name"} else dict(self.value)


class Services(Struct, kw_only=True):
    """The services of all files; `known` are our services."""

    known: Mapping[str, Layer]
    entries: list[OldService] = []

    def read(self, old: OldFile, found: Imported, records: list[Record]) -> None:
        """Read the services of one file, and add their records to `records`."""
        for number, value in enumerate(old.section("services")):
            entry = _service(old, value, ("services", number), found)
            if entry.name not in old_hosts():
                found.notes.append(
                    left_out(entry.where, UNKNOWN.format(safe_repr(entry.name), ", ".join(sorted(old_hosts()))))
                )
                continue
            if entry.value.get("merge_mode") == "replace":
                self.entries = [other for other in self.entries if other.name != entry.name]
                records[:] = [record for record in records if record.service != entry.name]
            entry = replace(entry, records=old_records(entry))
            self.entries.append(entry)
            records += entry.records

    def put_into(self, found: Imported, kept: Collection[int]) -> list[OldService]:
        """Add the services to `found`, and return those that we have; `kept` are the ids of the records in force."""
        # The older layers could name a service several times; a file can name it once.
        first = {entry.name: entry for entry in reversed(self.entries)}
        joined = {name: _joined([one for one in self.entries if one.name == name]) for name in first}
        ours: list[OldService] = []
        for entry in self.entries:
            if entry.name not in self.known:
                records = [record for record in entry.records if id(record) in kept]
                found.domains += (record.value([one.rule for one in record.taken]) for record in records)
            elif (named := first[entry.name]) is not entry:
                if not joined[entry.name] and named.value != entry.value:
                    found.notes.append(left_out(entry.where, ONCE.format(entry.name, named.where)))
            elif self._is_taken(whole := joined[entry.name] or entry, found):
                ours.append(whole)
                found.notes += (Note(where=entry.where, what=what) for what in _ours(whole))
        return ours

    def _is_taken(self, entry: OldService, found: Imported) -> bool:
        text = "\n".join(("services:", *entry_lines(entry.written), ""))
        try:
            parse_layer(text, name="", file="", shown="", services=self.known)
        except UserError as error:
            found.notes += (left_out(entry.where, one.what) for one in error.problems)
            return False
        found.services.append(entry.written)
        return True


def _joined(entries: Sequence[OldService]) -> OldService | None:
    """Return scoped entries of one service as one entry that allows the same, None if that cannot be written."""
    first = entries[0]
    alike = all(one.is_scoped and _without_access(one) == _without_access(first) for one in entries)
    levels = [{one.value[part].get("access") for part in SURFACES & one.value.keys()} for one in entries]
    if not alike or any(level not in ({"read"}, {"readwrite"}) for level in levels):
        return None
    most = "readwrite" if {"readwrite"} in levels else "read"
    access = {name: "read" for one in entries for name in one.value["repos"]}
    access |= {
        name: most for one, level in zip(entries, levels, strict=True) if most in level for name in one.value["repos"]
    }
    repos = [name if level == most else {"name": name, "access": level} for name, level in access.items()]
    parts = {part: {**first.value[part], "access": most} for part in SURFACES & first.value.keys()}
    records = [record for one in entries for record in one.records]
    return replace(first, value={**first.value, "repos": repos, **parts}, records=records)


def _without_access(entry: OldService) -> dict[str, Any]:
    kept = {key: value for key, value in entry.value.items() if key != "repos"}
    parts = {part: {**kept[part], "access": ""} for part in SURFACES & kept.keys()}
    return {**kept, **parts}


def _ours(entry: OldService) -> Iterator[str]:
    """Yield how our service of that name differs from the old one."""
    if not entry.is_scoped:
        yield OURS.format(entry.name, ", ".join(old_hosts()[entry.name]))
    elif "git" in entry.value:
        yield GIT


def old_records(entry: OldService) -> list[Record]:
    """Return what a service allowed: its hosts, or the named parts of its repositories."""
    if entry.is_scoped:
        return [
            Record(host=host, where=entry.where, service=entry.name, taken=_of_repositories(entry, part, host, paths))
            for part, (host, paths) in SCOPED.items()
            if part in entry.value
        ]
    rule = READING if entry.value.get("readonly") else None
    methods = frozenset(READING["methods"]) if rule else None
    return [
        Record(
            host=host,
            where=entry.where,
            service=entry.name,
            taken=[Taken(rule=rule, conditions=Conditions(host=parse_host_pattern(host), methods=methods))],
        )
        for host in old_hosts()[entry.name]
    ]


def _of_repositories(entry: OldService, part: str, host: str, asked: Sequence[Asked]) -> list[Taken]:
    repositories = [name for name in entry.value["repos"] if is_repository(name) and "*" not in name]
    access = str(entry.value[part].get("access"))
    return [
        Taken(
            rule={},
            conditions=Conditions(
                host=parse_host_pattern(host),
                methods=None if methods is None else frozenset(methods),
                path=parse_path_pattern(kind, path.format(name.lower()), any_case=WHOLE),
                query=query_pattern({"service": [service]}) if service else None,
            ),
        )
        for name in repositories
        for levels, methods, kind, path, service in asked
        if access in levels
    ]


@cache
def old_hosts() -> Mapping[str, tuple[str, ...]]:
    """Return the hosts of each older service."""
    text = Path(__file__).with_name("services.yaml").read_text("utf-8")
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
    readonly = "readonly" in values and old.flag(values["readonly"], *place, "readonly")
    if readonly and "surfaces" not in values:
        entry["readonly"] = True
    if "repos" in values:
        entry["repos"] = old.words(values["repos"], *place, "repos")
    access = "read" if readonly else "readwrite"
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


class Origin:
    """The records in force there, by host: `x`, or `.x` for x and every name below it.

    Only the most specific matching host applies to a request.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = tuple(records)
        known = [record for record in self.records if _is_host(record.host)]
        self._of: defaultdict[str, list[Record]] = defaultdict(list)
        for record in known:
            self._of[record.host].append(record)
        self._below = narrower(known)

    def governing(self, host: HostPattern) -> Sequence[Record]:
        """Return the most specific records that contain a host or wildcard."""
        found = (self._of[str(one)] for one in host.containing() if str(one) in self._of)
        return next(found, [])

    def below(self, host: HostPattern) -> Records:
        """Return the records for single hosts and narrower wildcards within a wildcard, by host."""
        if host.reach not in {Reach.BELOW, Reach.APEX_AND_BELOW}:
            return {}
        found = self._below.get(f".{host.name}", {})
        return {one: records for one, records in found.items() if host.reach is not Reach.BELOW or one != host.name}

    def refuses(self, asked: Conditions) -> bool:
        """Return whether a part may have been denied there. False is a proof that everything was allowed."""
        return not takes(self.governing(asked.host), asked) or bool(self.refused_below(asked))

    def kept(self, record: Record) -> list[Taken]:
        """Return the rules of a record that allow nothing that was denied there."""
        return [one for one in record.taken if not self.refused_below(one.conditions)]

    def refused_below(self, asked: Conditions) -> str:
        """Return a host below a wildcard for which a part may have been denied; empty if there is none."""
        for host, records in self.below(asked.host).items():
            if not takes(records, replace(asked, host=parse_host_pattern(host))):
                return host
        return ""


def _is_host(text: str) -> bool:
    """Return whether this is a valid host here; a request can never name an invalid one."""
    try:
        parse_host_pattern(text)
    except InvalidValue:
        return False
    return True


def takes(records: Iterable[Record], asked: Conditions) -> bool:
    """Return whether one of the records allowed everything that matches the conditions."""
    return any(record.takes(asked) for record in records)


def narrower(records: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """Return the records below each wildcard, by host, in one pass: a file can have any number of records."""
    below: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        for wide in _wider(record.host):
            below.setdefault(wide, {}).setdefault(record.host, []).append(record)
    return below


def _wider(host: str) -> Iterator[str]:
    labels = host.removeprefix(".").split(".")
    wider = (f".{'.'.join(labels[number:])}" for number in range(len(labels)))
    return (wide for wide in wider if wide != host)
