"""Services as a person looks at them: what one lets through and why, and what differs between two versions of all."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent_sandbox.policy.compile import compile_policy
from agent_sandbox.policy.dump import dump_conditions
from agent_sandbox.policy.entryspec import DomainSpec
from agent_sandbox.policy.layer import Layer
from agent_sandbox.policy.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A host of a service: what is accepted with it, and its rules."""

    spec: DomainSpec
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A service that is in both versions, and differs in what it lets through."""

    name: str
    dates: tuple[str, str]
    opened: tuple[Rule, ...]
    closed: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between two versions; what is worded anew and no more is no difference."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[Changed, ...]


def rules_of(service: Layer) -> tuple[Rule, ...]:
    """Return every rule of a service, in the order of its file."""
    return compile_policy([service], {}).rules.rules


def entries(service: Layer) -> Iterator[Entry]:
    """Yield the hosts of a service, each with its rules."""
    rules = iter(rules_of(service))
    for spec in service.spec.domains:
        yield Entry(spec=spec, rules=tuple(next(rules) for _ in spec.rules or (spec,)))


def difference(old: Mapping[str, Layer], new: Mapping[str, Layer]) -> Difference:
    """Return what differs from the old version to the new one."""
    both = [_changed(name, old[name], new[name]) for name in new if name in old]
    return Difference(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(change for change in both if change.opened or change.closed),
    )


def _changed(name: str, old: Layer, new: Layer) -> Changed:
    was, now = _by_meaning(old), _by_meaning(new)
    return Changed(
        name=name,
        dates=(old.spec.date, new.spec.date),
        opened=tuple(rule for meaning, rule in now.items() if meaning not in was),
        closed=tuple(rule for meaning, rule in was.items() if meaning not in now),
    )


def _by_meaning(service: Layer) -> dict[str, Rule]:
    dumped = ((rule, [rule.effect, dump_conditions(rule.conditions)]) for rule in rules_of(service))
    return {json.dumps(meaning, sort_keys=True): rule for rule, meaning in dumped}
