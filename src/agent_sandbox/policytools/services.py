"""Describe services: what each allows and why, and what differs between two versions."""

import json
from collections.abc import Iterator, Mapping

from msgspec import Struct

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.engine.dump import dump_conditions
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.file.entry_spec import DomainSpec
from agent_sandbox.policy.file.service_options import Access
from agent_sandbox.policy.file.service_spec import ServiceRuleSpec
from agent_sandbox.policy.file.spec import PolicySpec

# An example repository, for rules on named repositories.
A_REPOSITORY = "owner/name"


class Entry(Struct, frozen=True, kw_only=True):
    """A host of a service, and its rules."""

    spec: DomainSpec
    rules: tuple[Rule, ...]


class Changed(Struct, frozen=True, kw_only=True):
    """A service that is in both versions and differs in what it allows."""

    name: str
    dates: tuple[str, str]
    opened: tuple[Rule, ...]
    closed: tuple[Rule, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """What two versions allow differently; changes in wording do not count."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[Changed, ...]


def rules_of(service: Layer) -> tuple[Rule, ...]:
    """Return every rule of a service with all options at their highest level, in the order of its file.

    A rule for named repositories is returned for one example repository.
    """
    named = {name: [A_REPOSITORY] for name, kind in service.spec.declared.items() if isinstance(kind, str)}
    everywhere = with_the_most(service).rules.rules
    lines = {rule.origin.line for rule in everywhere}
    for_one = with_options(service, {**_most(service), **named}).rules.rules
    beside = (rule for rule in for_one if rule.origin.line not in lines)
    return tuple(sorted([*everywhere, *beside], key=lambda rule: rule.origin.line))


def with_the_most(service: Layer) -> Policy:
    """Return the policy of the service with all options at their highest level, for all repositories."""
    return with_options(service, _most(service))


def _most(service: Layer) -> dict[str, object]:
    declared = service.spec.declared
    return {name: {"access": kind.levels[-1]} for name, kind in declared.items() if isinstance(kind, Access)}


def with_options(service: Layer, options: Mapping[str, object]) -> Policy:
    """Return the policy of only this service with these options."""
    name = service.name.removeprefix("service ")
    spec = PolicySpec.model_validate({"services": [{"name": name, **options}]})
    policy = Layer(name="shown", file="shown", spec=spec, lines={})
    return compile_policy([policy], {name: service})


def entries(service: Layer) -> Iterator[Entry]:
    """Yield the hosts of a service, each with its rules."""
    rules = rules_of(service)
    for spec in service.spec.domains:
        yield Entry(spec=spec, rules=tuple(rule for rule in rules if rule.conditions.host == spec.host))


def choices(service: Layer) -> dict[int, str]:
    """Return the options that a rule requires, such as `git: readwrite`, by the rule's line."""
    found = {}
    for number, entry in enumerate(service.spec.domains):
        for index, rule in enumerate(entry.rules):
            if isinstance(rule, ServiceRuleSpec) and rule.when:
                line = service.origin("domains", number, "rules", index).line
                found[line] = ", ".join(f"{option}: {wanted}" for option, wanted in rule.when.items())
    return found


def difference(old: Mapping[str, Layer], new: Mapping[str, Layer]) -> Difference:
    """Return the difference between two versions of all services."""
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
