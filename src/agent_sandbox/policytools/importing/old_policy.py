"""Import policy files of the older format; a later file wins over an earlier one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.checking import shown
from agent_sandbox.policyfile.text.document import Value
from agent_sandbox.policytools.importing.old_services import Origin, Services
from agent_sandbox.policytools.importing.reading import ENTRY_KEYS, OldFile, read_old
from agent_sandbox.policytools.importing.records import BY_NAME, OVER_TLS, Imported, Note, Record, left_out, old_rule
from agent_sandbox.policytools.importing.restricting import restrict
from agent_sandbox.policytools.importing.together import Wanted, take_over
from agent_sandbox.problems import Problem, UserError

PORTS = "every port was allowed; here only 443 and 80 are: name others under `ports`"
METHODS = f"every method was allowed; here only {', '.join(sorted(STANDARD))} are: name others under `methods`"
HEAD = "GET implies HEAD here"
AN_ENTRY = "write a host, or `{host: example.com, rules: [{methods: [GET]}]}`"
SHADOWED = "{} also matches {}, where less was allowed; name the hosts that you need"
NO_HOST = "{} was not a host there; write `*` before it to make it a wildcard"
OTHER_KEYS = frozenset({"services", "domains", "version"})


def import_policies(files: Sequence[tuple[str, str]], *, known: Mapping[str, Layer]) -> Imported:
    """Return the combined policy of the files (name and text, lowest first), or raise UserError with every problem."""
    found, records, services = Imported(), list[Record](), Services(known=known)
    problems, wanted = list[Problem](), list[Wanted]()
    for file, text in files:
        try:
            old = read_old(text, file=file)
        except UserError as error:
            problems += error.problems
            continue
        services.read(old, found, records)
        for number, entry in enumerate(old.section("domains")):
            records += _record(old, entry, number, found, wanted)
        for key in sorted(old.value.keys() - OTHER_KEYS):
            found.notes.append(left_out(old.where(key), f"`{key}` is not supported"))
        problems += old.problems
    if problems:
        raise UserError(problems)
    take_over(wanted, found)
    origin = Origin(_not_replaced(records))
    ours = services.put_into(found, {id(record) for record in origin.records})
    restrict(ours, origin, found, services.known)
    found.domains += _entries(origin, found)
    found.notes.sort(key=_place)
    found.notes += _general(files[0][0], origin.records)
    return found


def _place(note: Note) -> tuple[str, int]:
    file, _, line = note.where.rpartition(":")
    return file, int(line)


def _not_replaced(records: Sequence[Record]) -> list[Record]:
    """Return the records that no later one replaces."""
    replaced, kept = set[str](), list[Record]()
    for record in reversed(records):
        if record.host not in replaced:
            kept.append(record)
        if record.replaces:
            replaced.add(record.host)
    return kept[::-1]


def _record(old: OldFile, entry: Value, number: int, found: Imported, wanted: list[Wanted]) -> Iterator[Record]:
    place = ("domains", number)
    if isinstance(entry, str):
        if entry.strip().startswith("."):
            found.notes.append(left_out(old.where(*place), NO_HOST.format(safe_repr(entry))))
            return
        record = Record(host=_host(entry), where=old.where(*place))
        wanted.append(Wanted(record=record, rule=None, where=record.where, after=len(found.notes)))
        yield record
        return
    if not isinstance(entry, dict):
        old.refuse(f"not an entry of `domains`: {shown(entry)}", *place, hint=AN_ENTRY)
        return
    values = old.mapping(entry, ENTRY_KEYS, *place)
    mode = values.get("merge_mode")
    if mode not in (None, "replace"):
        old.refuse("`merge_mode` can only be `replace`", *place, "merge_mode")
    written = old.word(values.get("host"), *place, "host")
    if written.startswith("."):
        found.notes.append(left_out(old.where(*place), NO_HOST.format(safe_repr(written))))
        return
    host = _host(written)
    transform = values.get("transform")
    record = Record(host=host, where=old.where(*place), replaces=mode == "replace", transform=transform)
    if transform is not None:
        found.notes.append(Note(where=old.where(*place, "transform"), what=BY_NAME))
    rules = old.listed(values.get("rules"), *place, "rules")
    if not rules:
        old.refuse("`rules` is missing or empty", *place, hint="to allow everything on a host, write only the host")
    for index, rule in enumerate(rules):
        inside = (*place, "rules", index)
        ours = old_rule(old, rule, inside, found)
        if transform is not None and {"http", "https"} <= {*ours.get("schemes", ())}:
            ours["schemes"] = ["https"]
            found.notes.append(Note(where=old.where(*inside), what=OVER_TLS))
        wanted.append(Wanted(record=record, rule=ours, where=old.where(*inside), after=len(found.notes)))
    yield record


def _host(text: str) -> str:
    """Return the canonical host in our format: `*.x` meant x and everything below."""
    host = text.strip().lower()
    ours = host.removeprefix("*") if host.startswith("*.") else host
    if ":" in ours:
        return ours
    try:
        return str(parse_host_pattern(ours))
    except InvalidValue:
        return ours  # left out later, with a note that quotes it


def _entries(origin: Origin, found: Imported) -> Iterator[object]:
    for record in origin.records:
        if record.service:
            continue
        kept = []
        for one in record.taken:
            less = origin.refused_below(one.conditions)
            if less:
                found.notes.append(left_out(record.where, SHADOWED.format(record.host, less)))
            else:
                kept.append(one.rule)
        if kept:
            yield record.value(kept)


def _general(file: str, records: Iterable[Record]) -> Iterator[Note]:
    """Yield the notes that apply to all entries."""
    rules = [one.rule or {} for record in records for one in record.taken]
    methods = [rule.get("methods") for rule in rules]
    if rules:
        yield Note(where=file, what=PORTS)
    if None in methods:
        yield Note(where=file, what=METHODS)
    if any("GET" in named and "HEAD" not in named for named in methods if named):
        yield Note(where=file, what=HEAD)
