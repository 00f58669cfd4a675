"""Policy files of the older format -> entries in our language; a later file stands over an earlier one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.text.document import Value
from agent_sandbox.policytools.importing.old_services import Services
from agent_sandbox.policytools.importing.origin import Origin
from agent_sandbox.policytools.importing.reading import ENTRY_KEYS, OldFile, read_old, shown
from agent_sandbox.policytools.importing.records import BY_NAME, OVER_TLS, Record, old_rule
from agent_sandbox.policytools.importing.restricting import restrict
from agent_sandbox.policytools.importing.result import Imported, Note, left_out
from agent_sandbox.policytools.importing.together import Wanted, take_over
from agent_sandbox.problems import Problem, UserError

PORTS = "every port was meant, and is 443 and 80 here: name others under `ports`"
METHODS = f"every method was meant, and is {', '.join(sorted(STANDARD))} here: name others under `methods`"
HEAD = "GET brings HEAD along here"
AN_ENTRY = "write a host, or `{host: example.com, rules: [{methods: [GET]}]}`"
SHADOWED = "{} takes in {} as well, of which less was allowed; write out which hosts you need"
NO_HOST = "{} was no host there; write `*` before it if it is to be a wildcard"
OTHER_KEYS = frozenset({"services", "domains", "version"})


def import_policies(files: Sequence[tuple[str, str]], *, known: Mapping[str, Layer]) -> Imported:
    """Return what the files (name and text, lowest first) say together; raise UserError with every problem of them."""
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
            found.notes.append(left_out(old.where(key), f"`{key}` means nothing here"))
        problems += old.problems
    if problems:
        raise UserError(problems)
    take_over(wanted, found)
    origin = Origin(_standing(records))
    ours = services.put_into(found, {id(record) for record in origin.records})
    restrict(ours, origin, found, services.known)
    found.domains += _entries(origin, found)
    found.notes.sort(key=_place)
    found.notes += _general(files[0][0], origin.records)
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
        old.refuse(f"`domains` holds {shown(entry)}, which is no entry", *place, hint=AN_ENTRY)
        return
    values = old.mapping(entry, ENTRY_KEYS, *place)
    mode = values.get("merge_mode")
    if mode not in (None, "replace"):
        old.refuse("`merge_mode` is `replace`, or it is not there", *place, "merge_mode")
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
        old.refuse("`rules` is missing or empty", *place, hint="a host of which all is allowed is a text alone")
    for index, rule in enumerate(rules):
        inside = (*place, "rules", index)
        ours = old_rule(old, rule, inside, found)
        if transform is not None and {"http", "https"} <= {*ours.get("schemes", ())}:
            ours["schemes"] = ["https"]
            found.notes.append(Note(where=old.where(*inside), what=OVER_TLS))
        wanted.append(Wanted(record=record, rule=ours, where=old.where(*inside), after=len(found.notes)))
    yield record


def _host(text: str) -> str:
    """Return the host in our words and its one spelling: `*.x` was x and all below it."""
    host = text.strip().lower()
    ours = host.removeprefix("*") if host.startswith("*.") else host
    if ":" in ours:
        return ours
    try:
        return str(parse_host_pattern(ours))
    except Unfit:
        return ours  # left out, and told as it was written


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
    """Yield what is so for every entry."""
    rules = [one.rule or {} for record in records for one in record.taken]
    methods = [rule.get("methods") for rule in rules]
    if rules:
        yield Note(where=file, what=PORTS)
    if None in methods:
        yield Note(where=file, what=METHODS)
    if any("GET" in named and "HEAD" not in named for named in methods if named):
        yield Note(where=file, what=HEAD)
