"""What a policy file lets the agent reach, and what of it another one did not."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_sandbox.policy.ceiling import Ceiling
from agent_sandbox.policy.covers import covers
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.rule import Rule
from agent_sandbox.policy.ruleset import RuleSet
from agent_sandbox.policyfile import load_policy
from agent_sandbox.policyfile.resolved import RESOLVED
from agent_sandbox.problems import UserError
from agent_sandbox.render.paths import POLICY
from agent_sandbox.runtime.trust.standing import LOSSLESS, Standing

# What ships with the product is named and counted; what the project itself says is spelled out.
OF_THE_PROJECT = ("project", *(f"service {name}" for name in RESOLVED))
KNOWN = ("conditions", "origin", "reason")
NOTHING = Policy.deny_all("nothing is trusted yet")


def policy_of(standing: Standing) -> Policy:
    """Return the policy that the project's files make by themselves; an invalid one lets nothing through."""
    with TemporaryDirectory(prefix="agent-sandbox-") as name:
        for path, text in standing.policy.items():
            file = Path(name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode(errors=LOSSLESS))
        try:
            return load_policy(Path(name, POLICY))
        except UserError:
            return NOTHING


def widens(now: Policy, before: Policy) -> tuple[str, ...]:
    """Return what `now` lets through and `before` did not, one line each; nothing where it only narrows."""
    if now.digest == before.digest or now.refusal:
        return ()
    return (*_new(now, before), *_places(now, before), *_no_longer(now, before), *_settings(now, before))


def _new(now: Policy, before: Policy) -> Iterator[str]:
    services: dict[str, int] = {}
    for rule in _not_within(_by_place(now, Effect.ALLOW), _by_place(before, Effect.ALLOW)):
        if rule.origin.layer in OF_THE_PROJECT:
            yield str(rule)
        else:
            services[rule.origin.layer] = services.get(rule.origin.layer, 0) + 1
    yield from (f"{layer}: {count} rule{'s' if count > 1 else ''}" for layer, count in services.items())


def _no_longer(now: Policy, before: Policy) -> Iterator[str]:
    for rule in _not_within(_by_place(before, Effect.DENY), _by_place(now, Effect.DENY)):
        yield f"{rule}, which was denied"


def _places(now: Policy, before: Policy) -> Iterator[str]:
    for row in now.rules.host_services:
        if row not in before.rules.host_services:
            ports = ", ".join(map(str, sorted(row.ports)))
            yield f"the private place {row.asked} on port {ports}{f', which is {row.to}' if row.to else ''}"


def _settings(now: Policy, before: Policy) -> Iterator[str]:
    if not {_held(ceiling) for ceiling in before.rules.ceilings} <= {_held(ceiling) for ceiling in now.rules.ceilings}:
        yield "what `tighten` held back"
    if not before.rules.replaced <= now.rules.replaced:
        yield "what `merge_mode: replace` took away"
    if _unopened(now):
        yield "TLS that is not opened, so that only the host is known, as `inspect: false` says"
    if now.settings.reload != before.settings.reload:
        yield f"policies to come, as `reload: {now.settings.reload}` says"
    if _others(now) != _others(before):
        yield "what other settings of the policy held back"


def _not_within(rules: list[Rule], others: list[Rule]) -> Iterator[Rule]:
    """Yield the rules that none of the others takes in as a whole."""
    same = {_asked(rule) for rule in others}
    by_host: defaultdict[str, list[Rule]] = defaultdict(list)
    for other in others:
        by_host[other.conditions.host.name].append(other)
    for rule in rules:
        if _asked(rule) not in same and not any(_within(rule, other) for other in _nearby(rule, by_host)):
            yield rule


def _nearby(rule: Rule, by_host: Mapping[str, list[Rule]]) -> Iterator[Rule]:
    labels = rule.conditions.host.name.split(".")
    for number in range(len(labels)):
        yield from by_host.get(".".join(labels[number:]), ())


def _within(rule: Rule, other: Rule) -> bool:
    return _beside_conditions(rule) == _beside_conditions(other) and covers(other.conditions, rule.conditions)


def _unopened(policy: Policy) -> bool:
    # Which hosts it comes to depends on every other rule: where it is said at all, a change is shown.
    said = (rule.conditions.inspect for rule in policy.rules.rules if rule.effect is Effect.ALLOW)
    return not policy.settings.inspect or any(inspect is False for inspect in said)


def _asked(rule: Rule) -> Hashable:
    """Return all that a rule says but where it stands: two that say the same are one."""
    return rule.conditions, _beside_conditions(rule)


def _beside_conditions(rule: Rule) -> Hashable:
    return tuple(getattr(rule, one.name) for one in fields(rule) if one.compare and one.name not in KNOWN)


def _held(ceiling: Ceiling) -> frozenset[Hashable]:
    return frozenset(map(_asked, ceiling.rules))


def _others(policy: Policy) -> RuleSet:
    # Whatever the language grows counts as wider until it is known to be none.
    return replace(policy.rules, rules=(), ceilings=(), replaced=frozenset(), host_services=(), settings={})


def _by_place(policy: Policy, effect: Effect) -> list[Rule]:
    rules = (rule for rule in policy.rules.rules if rule.effect is effect)
    return sorted(rules, key=lambda rule: (rule.origin.file, rule.origin.line, str(rule)))
