"""Summarise what a reload changes, briefly, because a policy can have a million rules."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from msgspec import Struct

from agent_sandbox.policy import Effect, Policy, decide_connect
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.settings import dump_settings
from agent_sandbox.policy.http.request import USUAL_PORTS
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach

SHOWN = 20  # of each kind; the rest is only counted
# Represents every name below a wildcard. No valid label begins with `-`, so no rule can name it.
ANY = "-any-"


class Change(Struct, frozen=True, kw_only=True):
    """Rules added and removed, other changes, and hosts to which nothing is allowed any more."""

    added: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    others: tuple[str, ...]
    unreachable: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of changes of each kind."""
        kinds = {"added": self.added, "removed": self.removed, "others": self.others, "unreachable": self.unreachable}
        return {name: len(kind) for name, kind in kinds.items()}

    def summary(self) -> dict[str, object]:
        """Return the first changes of each kind and all counts, for JSON."""
        shown = {"added": _rules(self.added), "removed": _rules(self.removed)}
        named = {"others": [*self.others[:SHOWN]], "unreachable": [*self.unreachable[:SHOWN]]}
        return {**shown, **named, "counts": self.counts}


def change(old: Policy, new: Policy) -> Change:
    """Compare two policies, ignoring where their rules are written."""
    before, after = _by_meaning(old), _by_meaning(new)
    return Change(
        added=tuple(rule for key, rule in after.items() if key not in before),
        removed=tuple(rule for key, rule in before.items() if key not in after),
        others=settings_changes(old, new),
        unreachable=tuple(_lost(old, new)),
    )


def _by_meaning(policy: Policy) -> dict[object, Rule]:
    return {(rule.effect, rule.conditions): rule for rule in policy.rules.rules}


def _lost(old: Policy, new: Policy) -> Iterator[str]:
    rules = chain(old.rules.rules, new.rules.rules)
    allowing = [rule.conditions for rule in rules if rule.effect is Effect.ALLOW]
    asked = {(host, port) for conditions in allowing for host in _hosts(conditions.host) for port in _ports(conditions)}
    before, after = ({host for host, port in asked if _opens(policy, host, port)} for policy in (old, new))
    yield from sorted(host.replace(ANY, "*") for host in before - after)


def _hosts(pattern: HostPattern) -> Iterator[str]:
    if pattern.reach is not Reach.BELOW:
        yield pattern.name
    if pattern.reach is not Reach.EXACT:
        yield f"{ANY}.{pattern.name}"


def _ports(conditions: Conditions) -> Collection[int]:
    return conditions.ports or USUAL_PORTS


def _opens(policy: Policy, host: str, port: int) -> bool:
    return decide_connect(policy, host=host, port=port).allowed


def _rules(rules: Sequence[Rule]) -> list[dict[str, str]]:
    """Return the first rules as data: the user's own before those of services."""
    written = (rule for rule in rules if not _is_of_a_service(rule))
    shown = islice(chain(written, filter(_is_of_a_service, rules)), SHOWN)
    return [{"effect": str(rule.effect), "rule": str(rule), "origin": str(rule.origin)} for rule in shown]


def _is_of_a_service(rule: Rule) -> bool:
    return rule.origin.layer.startswith("service ")


def settings_changes(old: Policy, new: Policy) -> tuple[str, ...]:
    """Return one line per difference: `-` and the old setting, or `+` and the new one."""
    before, after = dict(_settings(old)), dict(_settings(new))
    return (*_only("-", before, after), *_only("+", after, before))


def _only(sign: str, here: Mapping[object, str], there: Mapping[object, str]) -> Iterator[str]:
    return (f"{sign} {words}" for what, words in here.items() if what not in there)


def _settings(policy: Policy) -> Iterator[tuple[object, str]]:
    """Yield a key and a text for each setting; the keys differ even where the texts are the same."""
    settings, rules = policy.settings, policy.rules
    for name, value in dump_settings(replace(settings, upstream=None)).items():
        if value not in (None, ""):
            yield (name, value), f"{name}: {str(value).lower()}"
    if upstream := settings.upstream:
        yield from (((upstream.layer, words), f"{words}  ({upstream.origin})") for words in upstream.descriptions())
    for one in rules.budgets:
        yield (one.key, one.budget), f"budget of {one.whose}: {one.budget}  ({one.origin})"
    if rules.always_inspects:
        yield "always", "TLS to every host is inspected, even where another layer says `inspect: false`"
    for row in rules.host_services:
        where = f"{row.asked}:{','.join(map(str, sorted(row.ports)))}"
        yield (where, row.to), f"{where} leads to {row.to or 'a private network'}"
    for restriction in rules.restrictions:
        within = frozenset((rule.effect, rule.conditions) for rule in restriction.rules)
        yield (restriction.origin.layer, within), f"restricted by layer {restriction.origin.layer}"
