"""Add a rule to the text of a policy file with the smallest change, and verify the result."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.index import HostIndex
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policytools.edit.insertion import insertion, written
from agent_sandbox.policytools.edit.short_rule import ShortRule, sample
from agent_sandbox.problems import Problem, UserError


class Readers(Struct, frozen=True, kw_only=True):
    """Functions that turn the text of this file into a layer, and the layer into a policy with all other layers."""

    file: str
    layer: Callable[[str], Layer]
    policy: Callable[[Layer], Policy]


class Edited(Struct, frozen=True, kw_only=True):
    """The new text, the line of the new entry, and the rules that deny a part of it or ask a person about it."""

    text: str
    line: int
    beaten_by: tuple[Rule, ...] = ()
    asked_by: tuple[Rule, ...] = ()


class AlreadyCovered(Struct, frozen=True, kw_only=True):
    """Nothing to do: this rule already covers the new one."""

    rule: Rule


def edit(text: str, wanted: ShortRule, read: Readers, *, note: str = "") -> Edited | AlreadyCovered:
    """Return the text with the rule added, with `note` as a comment.

    Raises UserError if the result would not be exactly what was asked for.
    """
    before = read.layer(text)
    covering = _covering(read.policy(before), wanted, read.file)
    if covering:
        _require_effect(read.policy(before), wanted, read.file)
        return AlreadyCovered(rule=covering)
    change = insertion(text, wanted.section, wanted.text, note=note)
    after = change and _as_asked(change.into(text), wanted, before, read)
    if not change or not after:
        what = f"cannot add {wanted.text} to this file automatically"
        hint = f"add `- {written(wanted.text)}` under `{wanted.section}` by hand"
        raise UserError([Problem(where=read.file, what=what, hint=hint)])
    policy = read.policy(after)
    _require_effect(policy, wanted, read.file)
    line = after.origin(wanted.section, len(getattr(after.spec, wanted.section)) - 1).line
    beaten_by = tuple(_beating(policy.index, wanted))
    asked_by = tuple(_beating(policy.asking.index, wanted))
    return Edited(text=change.into(text), line=line, beaten_by=beaten_by, asked_by=asked_by)


def _covering(policy: Policy, wanted: ShortRule, file: str) -> Rule | None:
    """Return the rule that covers this already; raise UserError if a deny covers an allow."""
    asked = wanted.rule.conditions
    rules = [rule for rule in policy.rules.rules if covers(rule.conditions, asked)]
    deny = next((rule for rule in rules if rule.effect is Effect.DENY), None)
    if deny and wanted.effect is Effect.ALLOW:
        what = f"{wanted.text} is denied by {deny.origin} ({deny}), and a deny always wins"
        raise UserError([Problem(where=file, what=what, hint="narrow or remove that entry; nothing was changed")])
    return deny or next((rule for rule in rules if wanted.effect is Effect.ALLOW), None)


def _require_effect(policy: Policy, wanted: ShortRule, file: str) -> None:
    """Raise UserError if the policy decides the sample request differently, because of another layer or deny."""
    decision = decide(policy, replace(wanted.request, secrets=True))
    if decision.effect is not wanted.effect:
        what = f"{wanted.text} would still be denied: {decision.reason}"
        raise UserError([Problem(where=file, what=what, hint="nothing was changed")])


def _as_asked(text: str, wanted: ShortRule, before: Layer, read: Readers) -> Layer | None:
    """Return the layer of the new text if it is the old one plus exactly the new rule, otherwise None."""
    try:
        after = read.layer(decode_policy(text.encode(), file=read.file))
    except UserError:
        return None
    entries = (*getattr(before.spec, wanted.section), wanted.spec)
    return after if dict(after.spec) == dict(before.spec) | {wanted.section: entries} else None


def _beating(index: HostIndex, wanted: ShortRule) -> Iterator[Rule]:
    """Yield the denies that certainly exclude a part of what is allowed. Rules that ask are denies in their index."""
    if wanted.effect is Effect.DENY:
        return
    for rule in index.rules_for(wanted.request.host):
        with suppress(Ambiguous):  # a query too long for any request
            request = sample(_shared(rule.conditions, wanted.rule.conditions))
            ways = readings(request.path)
            if rule.effect is Effect.DENY and rule.matches(request, ways) and wanted.rule.matches(request, ways):
                yield rule


def _shared(asked: Conditions, narrow: Conditions) -> Conditions:
    """Return the conditions with the host and the intersections of ports, schemes and methods."""
    return replace(
        asked,
        host=narrow.host,
        ports=_both(asked.ports, narrow.ports),
        schemes=_both(asked.schemes, narrow.schemes),
        methods=_both(asked.methods, narrow.methods),
    )


def _both[T](one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    return other if one is None else one if other is None else one & other
