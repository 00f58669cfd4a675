"""Limit our services to what the older policy allowed: anything beyond is replaced or denied."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.importing.old_services import READING, OldService, Origin
from agent_sandbox.policytools.importing.records import Imported, Note, Record, entry_lines, left_out

DENIED = "`{}` would newly allow {}, so it is denied; remove it from `deny` to allow it"
WIDER = "`{0}` would allow more of {1} than before; name the hosts that you need"


class Excess(Struct, frozen=True):
    """A rule of one of our services that allows something that was denied."""

    service: OldService
    rule: Rule


def restrict(ours: Sequence[OldService], origin: Origin, found: Imported, known: Mapping[str, Layer]) -> None:
    """Add entries to `found` that deny or replace what our services allow beyond the older policy."""
    over, fine = list[Excess](), list[Rule]()
    for service in ours:
        for rule in _allows(service, known):
            if origin.refuses(rule.conditions):
                over.append(Excess(service, rule))
            else:
                fine.append(rule)
    for record in origin.records:
        if record.replaces and _would_close(record, fine):
            record.replaces = False
    replaced = {parse_host_pattern(record.host) for record in origin.records if record.replaces and origin.kept(record)}
    by_host: defaultdict[HostPattern, list[Excess]] = defaultdict(list)
    for one in over:
        host = one.rule.conditions.host
        if not _is_reported(one, origin) and replaced.isdisjoint(host.containing()):
            by_host[host].append(one)
    # Wildcards first: their service is left out as a whole.
    for host in sorted(by_host, key=lambda host: (host.reach is Reach.EXACT, host)):
        left = [one for one in by_host[host] if one.service.written in found.services]
        if left:
            _take_back(host, left, origin, found)


def _allows(service: OldService, known: Mapping[str, Layer]) -> Iterator[Rule]:
    text = "\n".join(("services:", *entry_lines(service.written), ""))
    layer = parse_layer(text, name="", file="", shown="", services=known)
    return (rule for rule in expand(layer, known).rules if rule.effect is Effect.ALLOW)


def _would_close(record: Record, fine: Iterable[Rule]) -> bool:
    """Return whether a replacing wildcard would remove rules of a service that were in force there."""
    if not (record.host.startswith(".") and record.taken):
        return False
    host = parse_host_pattern(record.host)
    within = (rule.conditions for rule in fine if host in rule.conditions.host.containing())
    return any(not record.takes(asked) for asked in within)


def _is_reported(one: Excess, origin: Origin) -> bool:
    """Return whether another note already reports it: the service names repositories and no entry has the host."""
    governing = origin.governing(one.rule.conditions.host)
    return one.service.is_scoped and all(record.service == one.service.name for record in governing)


def _take_back(host: HostPattern, over: Sequence[Excess], origin: Origin, found: Imported) -> None:
    governing = origin.governing(host)
    entries = [record for record in governing if not record.service]
    repositories = any(one.conditions.path for record in governing if record.service for one in record.taken)
    if (not entries and repositories) or (host.reach is not Reach.EXACT and (governing or origin.below(host))):
        _leave_out(host, over, found)
    elif any(origin.kept(record) if record.host == str(host) else record.taken for record in entries):
        _replace(host, entries, origin, found)
    elif governing and not entries:
        _deny_writing(host, over, found)
    else:
        _deny(over, found, str(host), str(host))


def _leave_out(host: HostPattern, over: Sequence[Excess], found: Imported) -> None:
    for service in {one.service.name: one.service for one in over}.values():
        found.services.remove(service.written)
        found.notes.append(left_out(service.where, WIDER.format(service.name, host)))


def _replace(host: HostPattern, entries: Sequence[Record], origin: Origin, found: Imported) -> None:
    """Replace what the service allows on the host by the older entries for it."""
    if entries[0].host == str(host):
        next(record for record in entries if origin.kept(record)).replaces = True
        return
    for number, record in enumerate(record for record in entries if record.taken):
        # `merge_mode` on one entry of a host applies to all of them.
        one = Record(host=str(host), where=record.where, replaces=number == 0, transform=record.transform)
        found.domains.append(one.value([taken.rule for taken in record.taken]))


def _deny_writing(host: HostPattern, over: Sequence[Excess], found: Imported) -> None:
    """Deny the writing methods of a service that was read-only but uses POST here, such as for a clone."""
    asked = (one.rule.conditions.methods or frozenset() for one in over)
    methods = sorted(frozenset[str]().union(*asked).difference(READING["methods"]))
    what = f"{', '.join(methods)} of {host}"
    _deny(over, found, {"host": str(host), "rules": [{"methods": methods}]}, what)


def _deny(over: Sequence[Excess], found: Imported, entry: object, what: str) -> None:
    found.deny.append(entry)
    for service in {one.service.name: one.service for one in over}.values():
        found.notes.append(Note(where=service.where, what=DENIED.format(service.name, what)))
