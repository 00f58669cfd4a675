"""One more rule in a policy file, in place: the smallest change, proved before anything is written."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policytools.edit.insertion import insertion, written
from agent_sandbox.policytools.edit.short_rule import ShortRule, sample
from agent_sandbox.problems import Problem, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """How the text of this file becomes a layer, and the layer a policy together with all that lies around it."""

    file: str
    layer: Callable[[str], Layer]
    policy: Callable[[Layer], Policy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The new text, the line that the new entry stands on, and the denies that take a part of it away."""

    text: str
    line: int
    beaten_by: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Nothing is to be done: this rule says the same, or more."""

    rule: Rule


def edit(text: str, wanted: ShortRule, read: Readers) -> Edited | Standing:
    """Return the text with the rule in it; raise UserError where that would not do what was asked, and only that."""
    before = read.layer(text)
    standing = _standing(read.policy(before), wanted, read.file)
    if standing:
        _require_effect(read.policy(before), wanted, read.file)
        return Standing(rule=standing)
    change = insertion(text, wanted.section, wanted.text)
    after = change and _as_asked(change.into(text), wanted, before, read)
    if not change or not after:
        what = f"{wanted.text} can't be put into this file as it is written"
        hint = f"add `- {written(wanted.text)}` under `{wanted.section}` by hand"
        raise UserError([Problem(where=read.file, what=what, hint=hint)])
    policy = read.policy(after)
    _require_effect(policy, wanted, read.file)
    line = after.origin(wanted.section, len(getattr(after.spec, wanted.section)) - 1).line
    return Edited(text=change.into(text), line=line, beaten_by=tuple(_beating(policy, wanted)))


def _standing(policy: Policy, wanted: ShortRule, file: str) -> Rule | None:
    """Return the rule that says this already; that a deny beats an allow is a problem."""
    asked = wanted.rule.conditions
    rules = [rule for rule in policy.rules.rules if covers(rule.conditions, asked)]
    deny = next((rule for rule in rules if rule.effect is Effect.DENY), None)
    if deny and wanted.effect is Effect.ALLOW:
        what = f"{wanted.text} is denied by {deny.origin} ({deny}), and a deny always wins"
        raise UserError([Problem(where=file, what=what, hint="narrow that entry or take it out; nothing was changed")])
    return deny or next((rule for rule in rules if wanted.effect is Effect.ALLOW), None)


def _require_effect(policy: Policy, wanted: ShortRule, file: str) -> None:
    """Refuse an allow that another layer, or a deny that no rule was compared with, makes void."""
    decision = decide(policy, wanted.request._replace(secrets=True))
    if decision.effect is not wanted.effect:
        what = f"{wanted.text} would be denied all the same: {decision.reason}"
        raise UserError([Problem(where=file, what=what, hint="nothing was changed")])


def _as_asked(text: str, wanted: ShortRule, before: Layer, read: Readers) -> Layer | None:
    """Return what the new text says, read as the proxy will read it, if that is the old and the rule and no more."""
    try:
        after = read.layer(decode_policy(text.encode(), file=read.file))
    except UserError:
        return None
    entries = (*getattr(before.spec, wanted.section), wanted.spec)
    return after if dict(after.spec) == dict(before.spec) | {wanted.section: entries} else None


def _beating(policy: Policy, wanted: ShortRule) -> Iterator[Rule]:
    """Yield the denies that surely take a part of what is allowed."""
    if wanted.effect is Effect.DENY:
        return
    for rule in policy.index.rules_for(wanted.request.host):
        with suppress(Ambiguous):  # a query too long for any request
            request = sample(_shared(rule.conditions, wanted.rule.conditions))
            ways = readings(request.path)
            if rule.effect is Effect.DENY and rule.matches(request, ways) and wanted.rule.matches(request, ways):
                yield rule


def _shared(asked: Conditions, narrow: Conditions) -> Conditions:
    """Return the conditions with what their sets have in common, where they have something."""
    return replace(
        asked,
        host=narrow.host,
        ports=_both(asked.ports, narrow.ports),
        schemes=_both(asked.schemes, narrow.schemes),
        methods=_both(asked.methods, narrow.methods),
    )


def _both[T](one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    return other if one is None else one if other is None else one & other
