"""Add rules, entries, services and settings to the text of a policy file with small changes, and verify the result."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml
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
from agent_sandbox.policy.file.service_spec import ServiceSpec
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.insertion import (
    USUAL_INDENT,
    Insertion,
    after_line,
    in_flow,
    insertion,
    new_key,
    whole_lines,
    written,
)
from agent_sandbox.policytools.edit.outline import Node, Style, outline
from agent_sandbox.policytools.edit.short_rule import ShortRule, sample
from agent_sandbox.problems import Problem, UserError

type Values = Mapping[str, Mapping[str, object] | list[object]]
SECTION = "services"


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


def merge(text: str, values: Values, read: Readers) -> Edited | None:
    """Return the text with these keys in its sections, and these entries in its lists; None if it has them.

    All else stays. Raises UserError if the result would not be exactly what was asked for.
    """
    wanted = _merged(_value(text, read.file), values)
    if wanted == _value(text, read.file):
        return None
    changed = text
    for section, added in values.items():
        pairs = list(added.items()) if isinstance(added, Mapping) else [("", entry) for entry in added]
        for key, value in pairs:
            changed = _with(changed, section, key, value, read) or text
    if _value(changed, read.file) != wanted:
        what = "cannot change this file automatically"
        hint = "add by hand: " + "; ".join(f"{section}: {flow(added)}" for section, added in values.items())
        raise UserError([Problem(where=read.file, what=what, hint=hint)])
    read.policy(read.layer(decode_policy(changed.encode(), file=read.file)))
    return Edited(text=changed, line=_first_changed(text, changed))


def _value(text: str, file: str) -> dict[str, Any]:
    value = parse_document(text, file=file).value
    return dict(value) if isinstance(value, dict) else {}


def _merged(old: Mapping[str, Any], values: Values) -> dict[str, Any]:
    new = dict(old)
    for section, added in values.items():
        here = new.get(section)
        if isinstance(added, Mapping):
            new[section] = {**(here or {}), **added}
        else:
            new[section] = [*(here or []), *(entry for entry in added if entry not in (here or []))]
    return new


def _with(text: str, section: str, key: str, value: object, read: Readers) -> str:
    """Return the text with one key or entry; an empty text if the section has an unusual form."""
    here = _value(text, read.file).get(section) or {}
    if value in here if isinstance(here, list) else here.get(key) == value:
        return text
    shape = outline(text)
    root = shape.root
    node = root.section(section) if root else None
    lines = _lines(key, value)
    if root is None or root.is_nothing:
        return whole_lines(text, shape.end, f"{section}:", *_indented(lines)).into(text)
    if root.style is Style.FLOW:
        return ""
    if node is None:
        return new_key(text, shape, root, f"{section}:", *_indented(lines)).into(text)
    return _into(text, node, key, value, lines).into(text)


def _into(text: str, node: Node, key: str, value: object, lines: list[str]) -> Insertion:
    inner = node.section(key) if key else None
    if inner is not None:
        return Insertion(at=inner.start, text=flow(value), instead_of=inner.end - inner.start)
    if node.is_nothing:
        return whole_lines(text, after_line(text, node.end), *_indented(lines))
    if node.style is Style.BLOCK:
        return whole_lines(text, after_line(text, node.end), *(f"{' ' * node.column}{line}" for line in lines))
    return in_flow(text, node, f"{key}: {flow(value)}" if key else flow(value))


def _lines(key: str, value: object) -> list[str]:
    """Return a key with its value, or an entry of a list, as lines of YAML."""
    if key:
        return [f"{key}: {flow(value)}"]
    # Collections that hold no others are written in brackets.
    return yaml.safe_dump([value], default_flow_style=None, sort_keys=False, width=1000).splitlines()


def _indented(lines: list[str]) -> list[str]:
    return [f"{' ' * USUAL_INDENT}{line}" for line in lines]


def _first_changed(before: str, after: str) -> int:
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    same = next((at for at, (old, new) in enumerate(pairs) if old != new), len(before.splitlines()))
    return same + 1


def add_service(text: str, name: str, read: Readers, *, note: str = "") -> Edited:
    """Return the text with the service added, with `note` as a comment.

    Raises UserError if the result would not be exactly what was asked for.
    """
    before = read.layer(text)
    change = insertion(text, SECTION, name, note=note)
    after = change and _with_service(change.into(text), name, before, read)
    if not change or not after:
        what = f"cannot add the service {name} to this file automatically"
        raise UserError([Problem(where=read.file, what=what, hint=f"add `- {name}` under `{SECTION}` by hand")])
    line = after.origin(SECTION, len(after.spec.services) - 1).line
    return Edited(text=change.into(text), line=line)


def _with_service(text: str, name: str, before: Layer, read: Readers) -> Layer | None:
    try:
        after = read.layer(decode_policy(text.encode(), file=read.file))
    except UserError:
        return None
    entries = (*before.spec.services, ServiceSpec(name=name))
    return after if dict(after.spec) == dict(before.spec) | {SECTION: entries} else None
