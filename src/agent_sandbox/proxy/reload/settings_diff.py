"""Compare what two policies contain besides rules: settings, host services, layers that restrict."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from agent_sandbox.policy import Policy
from agent_sandbox.policy.engine.settings import dump_settings


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
        where = f"{row.asked}:{_listed(row.ports)}"
        yield (where, row.to), f"{where} leads to {row.to or 'a private network'}"
    for restriction in rules.restrictions:
        within = frozenset((rule.effect, rule.conditions) for rule in restriction.rules)
        yield (restriction.origin.layer, within), f"restricted by layer {restriction.origin.layer}"


def _listed(ports: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ports)))
