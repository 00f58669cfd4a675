"""What another policy changes beside its rules: settings, private places, layers that narrow."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from agent_sandbox.policy import Policy
from agent_sandbox.policy.engine.settings import dump_settings


def change_beside_rules(old: Policy, new: Policy) -> tuple[str, ...]:
    """Return a line for each thing that is said no longer, with `-`, and for each that is new, with `+`."""
    before, after = dict(_said(old)), dict(_said(new))
    return (*_only("-", before, after), *_only("+", after, before))


def _only(sign: str, here: Mapping[object, str], there: Mapping[object, str]) -> Iterator[str]:
    return (f"{sign} {words}" for what, words in here.items() if what not in there)


def _said(policy: Policy) -> Iterator[tuple[object, str]]:
    """Yield what the policy does beside its rules, each with its words: two that read alike may differ."""
    settings, rules = policy.settings, policy.rules
    for name, value in dump_settings(replace(settings, upstream=None)).items():
        if value is not None:
            yield (name, value), f"{name}: {str(value).lower()}"
    if upstream := settings.upstream:
        yield from (((upstream.layer, words), f"{words}  ({upstream.origin})") for words in upstream.descriptions())
    if rules.always_inspects:
        yield "always", "TLS is opened for every host, whatever other layers say"
    for row in rules.host_services:
        where = f"{row.asked}:{_listed(row.ports)}"
        yield (where, row.to), f"{where} leads to {row.to or 'a private network'}"
    for ceiling in rules.ceilings:
        within = frozenset((rule.effect, rule.conditions) for rule in ceiling.rules)
        yield (ceiling.origin.layer, within), f"narrowed by layer {ceiling.origin.layer}"


def _listed(ports: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ports)))
