"""Policy files of the older format -> entries in our language; a later file stands over an earlier one."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from agent_sandbox.policy.hostpattern import parse_host_pattern
from agent_sandbox.policy.method import STANDARD
from agent_sandbox.policyfile.document import Value
from agent_sandbox.policytools.importing.oldservices import Services
from agent_sandbox.policytools.importing.reading import ENTRY_KEYS, OldFile, read_old
from agent_sandbox.policytools.importing.records import BY_NAME, OVER_TLS, Record, Taken, old_rule
from agent_sandbox.policytools.importing.result import Imported, Note
from agent_sandbox.policytools.importing.together import Wanted, take_over
from agent_sandbox.problems import Problem, UserError

PORTS = "every port was meant, and is 443 and 80 here: name others under `ports`"
METHODS = f"every method was meant, and is {', '.join(sorted(STANDARD))} here: name others under `methods`"
HEAD = "GET brings HEAD along here"
SHADOWED = "left out: {} takes in {} as well, of which less was allowed; write out which hosts you need"
OTHER_KEYS = frozenset({"services", "domains", "version"})


def import_policies(files: Sequence[tuple[str, str]], *, known: Collection[str]) -> Imported:
    """Return what the files (name and text, lowest first) say together; raise UserError with every problem of them."""
    found, records, services = Imported(), list[Record](), Services(known=known)
    problems, wanted = list[Problem](), list[Wanted]()
    for file, text in files:
        try:
            old = read_old(text, file=file)
        except UserError as error:
            problems += error.problems
            continue
        services.read(old, found)
        for number, entry in enumerate(old.section("domains")):
            records.append(_record(old, entry, number, found, wanted))
        for key in sorted(old.value.keys() - OTHER_KEYS):
            found.notes.append(Note(where=old.where(key), what=f"left out: `{key}` means nothing here"))
        problems += old.problems
    if problems:
        raise UserError(problems)
    take_over(wanted, found)
    records = _standing(records)
    services.put_into(found)
    found.domains += _entries(records, services, found)
    found.notes.sort(key=_place)
    found.notes += _general(files[0][0], [*records, *services.records])
    return found


def _place(note: Note) -> tuple[str, int]:
    file, _, line = note.where.rpartition(":")
    return file, int(line)


def _standing(records: Sequence[Record]) -> list[Record]:
    """Return the records that no later one replaces."""
    replaced, standing = set[str](), list[Record]()
    for record in reversed(records):
        if record.host not in replaced:
            standing.append(record)
        if record.replaces:
            replaced.add(record.host)
    return standing[::-1]


def _record(old: OldFile, entry: Value, number: int, found: Imported, wanted: list[Wanted]) -> Record:
    place = ("domains", number)
    if isinstance(entry, str):
        record = Record(host=_host(entry), where=old.where(*place))
        wanted.append(Wanted(record=record, rule=None, where=record.where, after=len(found.notes)))
        return record
    values = old.mapping(entry, ENTRY_KEYS, *place)
    mode = values.get("merge_mode")
    if mode not in (None, "replace"):
        old.refuse("`merge_mode` is `replace`, or it is not there", *place, "merge_mode")
    host = _host(old.word(values.get("host"), *place, "host"))
    transform = values.get("transform")
    record = Record(host=host, where=old.where(*place), replaces=mode == "replace", transform=transform)
    if transform is not None:
        found.notes.append(Note(where=old.where(*place, "transform"), what=BY_NAME))
    rules = old.listed(values.get("rules"), *place, "rules")
    if not rules:
        old.refuse("`rules` is missing or empty", *place, hint="a host of which all is allowed is a text alone")
    for index, rule in enumerate(rules):
        inside = (*place, "rules", index)
        ours = old_rule(old, rule, inside, found)
        if transform is not None and {"http", "https"} <= {*ours.get("schemes", ())}:
            ours["schemes"] = ["https"]
            found.notes.append(Note(where=old.where(*inside), what=OVER_TLS))
        wanted.append(Wanted(record=record, rule=ours, where=old.where(*inside), after=len(found.notes)))
    return record


def _host(text: str) -> str:
    """Return the host in our words: `*.x` was x and all below it."""
    host = text.strip().lower()
    return host.removeprefix("*") if host.startswith("*.") else host


def _entries(records: Sequence[Record], services: Services, found: Imported) -> Iterator[object]:
    narrower = _narrower([*records, *services.records])
    of_services = {record.host for record in services.records}
    for record in records:
        kept = []
        for one in record.taken:
            less = _less_allowed(one, narrower.get(record.host, {}))
            if less:
                found.notes.append(Note(where=record.where, what=SHADOWED.format(record.host, less)))
            else:
                kept.append(one.rule)
        # An exact host stood over the wildcards of services; what they allow of it here is none of its own.
        if record.host not in of_services and any(_is_within(record.host, host) for host in of_services):
            record.replaces = True
        if kept:
            yield record.value(kept)


def _narrower(everything: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """Return what there is below each wildcard, by host; gone through once, for a file may hold as many as it likes."""
    below: dict[str, dict[str, list[Record]]] = {}
    for record in everything:
        labels = record.host.removeprefix(".").split(".")
        for wide in (f".{'.'.join(labels[number:])}" for number in range(len(labels))):
            if wide != record.host:
                below.setdefault(wide, {}).setdefault(record.host, []).append(record)
    return below


def _less_allowed(one: Taken, narrower: Mapping[str, Sequence[Record]]) -> str:
    """Return the narrower host that a wildcard would open: it stood alone there, and here all that match count."""
    for host, others in narrower.items():
        asked = replace(one.conditions, host=parse_host_pattern(host))
        if not any(other.takes(asked) for other in others):
            return host
    return ""


def _is_within(host: str, wide: str) -> bool:
    """Tell whether a host, or a wildcard, is a narrower one below a wildcard.

    >>> _is_within("a.x.test", ".x.test"), _is_within(".x.test", ".x.test"), _is_within("x.test", ".x.test")
    (True, False, True)
    """
    return wide.startswith(".") and host != wide and f".{host.removeprefix('.')}".endswith(wide)


def _general(file: str, records: Iterable[Record]) -> Iterator[Note]:
    """Yield what is so for every entry."""
    rules = [one.rule or {} for record in records for one in record.taken]
    methods = [rule.get("methods") for rule in rules]
    if rules:
        yield Note(where=file, what=PORTS)
    if None in methods:
        yield Note(where=file, what=METHODS)
    if any("GET" in named and "HEAD" not in named for named in methods if named):
        yield Note(where=file, what=HEAD)
