"""Find rules that look like a limit but are not: another entry or service allows more on the same host."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, product

from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.decision import Origin as Place
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, Scheme
from agent_sandbox.policy.match.host_pattern import Reach, parse_host_pattern
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern
from agent_sandbox.policytools.importing.old_services import OldService, Origin, old_hosts, old_records, takes
from agent_sandbox.policytools.importing.records import Record, Taken
from agent_sandbox.policytools.lint.subject import Finding, Subject

# The most striking first.
METHODS = ("DELETE", "POST", "PUT", "PATCH", "GET", "OPTIONS", "HEAD")
NOWHERE = Place(file="", line=0, layer="")
# A wildcard is compared with each entry below it. More comparisons would take too long.
MAX_COMPARED = 20_000
SERVICE = "service "
PARTS = frozenset({"git", "web", "api"})
WHY = "all matching entries add up; the product that this file was written for may apply only the most specific host"
REPLACE = "write `merge_mode: replace` in that entry, so that it replaces what the service allows there"
NAME = "name the hosts instead of `{}`, or deny what should not be allowed"
DENY = "deny what should not be allowed: an entry cannot exclude a single host from a service's wildcard"


def adds_up(subject: Subject) -> Iterator[Finding]:
    """Find what a wildcard or a service allows on a host beyond the narrower rules for that host."""
    origin = Origin([*_own_records(subject), *_service_records(subject)])
    reported, compared = set[str](), count()
    for rule in _allows(subject):
        for host, records in _narrower(rule, origin):
            if next(compared) > MAX_COMPARED:
                return
            key = f"{rule.conditions.host}" if rule.origin.layer == subject.layer.name else host
            asked = replace(rule.conditions, host=parse_host_pattern(host))
            if key not in reported and (finding := _finding(subject, rule, asked, records)):
                reported.add(key)
                yield finding


def _allows(subject: Subject) -> Iterator[Rule]:
    """Yield the allows of `domains`, and those of services that an imported file can name."""
    layer = subject.layer
    lines = {
        layer.origin("domains", number, "rules", place).line
        for number, entry in enumerate(layer.spec.domains)
        for place in range(len(entry.rules) or 1)
    }
    for rule in subject.policy.rules.rules:
        if rule.effect is Effect.ALLOW and rule.conditions.host.reach not in {Reach.EVERY, Reach.LISTED}:
            if rule.origin.layer == layer.name and rule.origin.line in lines and rule.conditions.host.reach:
                yield rule
            if rule.origin.layer.removeprefix(SERVICE) in old_hosts() and rule.origin.layer.startswith(SERVICE):
                yield rule


def _own_records(subject: Subject) -> Iterator[Record]:
    """Yield the file's own rules for each host of `domains`."""
    records: dict[str, Record] = {}
    for number, entry in enumerate(subject.layer.spec.domains):
        if entry.host.reach is not Reach.EVERY:
            line = subject.layer.origin("domains", number).line
            host = _word(Conditions(host=entry.host))
            records.setdefault(host, Record(host=host, where=str(line)))
    for rule in subject.allows:
        if (record := records.get(_word(rule.conditions))) is not None:
            own = rule.conditions.host
            wider = dataclasses.replace(own, reach=Reach.APEX_AND_BELOW) if own.reach is Reach.BELOW else own
            asked = replace(rule.conditions, host=wider)
            record.taken.append(Taken(rule={}, conditions=asked))
    yield from records.values()


def _word(asked: Conditions) -> str:
    """Return the host as the older product writes it, where `*.x` includes x."""
    return f".{asked.host.name}" if asked.host.reach in {Reach.BELOW, Reach.APEX_AND_BELOW} else str(asked.host)


def _service_records(subject: Subject) -> Iterator[Record]:
    for number, spec in enumerate(subject.layer.spec.services):
        if spec.name in old_hosts():
            value = {"name": spec.name, **({"readonly": True} if spec.readonly else {}), **(spec.model_extra or {})}
            # Without named parts, all are read-only.
            if not all(isinstance(one, str) for one in value.get("repos", ())):
                continue  # the older product does not have access per repository
            value |= {} if PARTS & value.keys() else {part: {"access": "read"} for part in ("git", "api")}
            line = subject.layer.origin("services", number).line
            yield from old_records(OldService(name=spec.name, where=str(line), value=value))


def _narrower(rule: Rule, origin: Origin) -> Iterator[tuple[str, list[Record]]]:
    """Yield the records that the older product would apply to a host of the rule in place of the rule's own source."""
    service = rule.origin.layer.removeprefix(SERVICE) if rule.origin.layer.startswith(SERVICE) else ""
    governing = origin.governing(rule.conditions.host) if service else ()
    found: Mapping[str, list[Record]] = {
        **({str(rule.conditions.host): list(governing)} if governing else {}),
        **{host: list(records) for host, records in origin.below(rule.conditions.host).items()},
    }
    for host, records in found.items():
        if not service or all(record.service != service for record in records):
            yield host, records


def _finding(subject: Subject, rule: Rule, asked: Conditions, records: list[Record]) -> Finding | None:
    if takes(records, asked):
        return None
    beside = requests_beside(asked, [taken.conditions for record in records for taken in record.taken])
    request = next((one for one in beside if decide(subject.policy, one).allowed), None)
    if request is None:
        return None
    own = rule.origin.layer == subject.layer.name
    entry = records[0]
    other = f"service `{entry.service}`" if entry.service else f"the entry for {entry.host}"
    by = f"`{rule.conditions.host}`" if own else f"{rule.origin.layer.replace(SERVICE, SERVICE + '`')}`"
    contained = parse_host_pattern(entry.host) in rule.conditions.host.containing()
    return Finding(
        line=rule.origin.line if own else int(entry.where),
        what=f"{by} also allows {request.method} {request.url}, which {other} at line {entry.where} does not",
        why=WHY,
        fix=NAME.format(rule.conditions.host) if own else REPLACE if contained else DENY,
    )


def requests_beside(wide: Conditions, narrow: Sequence[Conditions]) -> Iterator[Request]:
    """Yield requests that match `wide` and none of `narrow`, found by a few tries."""
    taking, others = _rule(wide), [_rule(one) for one in narrow if one.host.matches(wide.host.sample)]
    methods = [one for one in METHODS if one in (wide.methods or STANDARD)]
    paths = dict.fromkeys(_paths(wide, narrow))
    for path, method in product(paths, methods):
        request = _beside(wide, path, method)
        ways = readings(path)
        if taking.matches(request, ways) and not any(one.matches(request, ways) for one in others):
            yield request


def _rule(asked: Conditions) -> Rule:
    return Rule(effect=Effect.ALLOW, conditions=asked, origin=NOWHERE)


def _paths(wide: Conditions, narrow: Sequence[Conditions]) -> Iterator[str]:
    if wide.path:
        yield from _of(wide.path)
        return
    for one in narrow:
        yield from _of(one.path) if one.path else ()
    yield from ("/", "/x/y")


def _of(pattern: PathPattern) -> Iterator[str]:
    text = pattern.text.replace("**", "x/y").replace("*", "x")
    yield text
    if pattern.kind is PathKind.PREFIX:
        yield f"{text.removesuffix('/')}/x"


def _beside(asked: Conditions, path: str, method: str) -> Request:
    scheme: Scheme = "https" if asked.schemes is None or "https" in asked.schemes else "http"
    usual = DEFAULT_PORTS[scheme]
    return Request(
        scheme=scheme,
        host=asked.host.sample,
        port=usual if asked.takes_port(usual) else min(asked.ports or {usual}),
        method=method,
        path=path,
        query=str(asked.query or ""),
        headers=tuple(asked.headers.named if asked.headers else ()),
        secrets=True,
    )
