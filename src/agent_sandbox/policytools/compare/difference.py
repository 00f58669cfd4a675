"""Compare two policies by meaning: what becomes reachable, and what stops being reachable.

The result is complete: every request that only the new policy allows is part of a change. A change can name more than
that, if two rules together replace one.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice, product

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.covers import EVERY_SCHEME, covers
from agent_sandbox.policy.engine.index import build_index
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policy.match.host_service import HostServiceRow
from agent_sandbox.policytools.compare.rule_cover import Wider
from agent_sandbox.policytools.compare.rule_overlap import Meeting

MAX_EXCEPTIONS = 3


class Change(Struct, frozen=True, kw_only=True):
    """Requests that only one policy allows. `what` describes them, `origin` is the line that causes the change.

    `kind` is `rule` for an allow in this policy; `deny`, `ask` and `ceiling` for what the other one denied, asked about
    or restricted;
    `slash`, `inspect` and `target` for changes to a whole host, `upstream` for the upstream proxy and CAs.
    """

    kind: str
    what: str
    origin: Origin
    exceptions: tuple[str, ...] = ()


class Difference(Struct, frozen=True, kw_only=True):
    """What becomes reachable, and what stops being reachable."""

    opens: tuple[Change, ...]
    stops: tuple[Change, ...]


def difference(old: Policy, new: Policy) -> Difference:
    """Return the difference between two policies."""
    return Difference(opens=tuple(_opens(old, new)), stops=tuple(_opens(new, old)))


def _opens(old: Policy, new: Policy) -> Iterator[Change]:
    if new.refusal:
        return
    yield from _by_rules(old, new)
    yield from _by_denies(old, new)
    yield from _by_questions(old, new)
    yield from by_restrictions(old, new)
    yield from _by_slashes(old, new)
    yield from _by_hosts(old, new)
    yield from _by_upstream(old, new)
    yield from by_budgets(old, new)


def _allows(policy: Policy) -> Iterator[Rule]:
    return (rule for rule in policy.rules.rules if rule.effect is Effect.ALLOW)


def _by_rules(old: Policy, new: Policy) -> Iterator[Change]:
    before = Wider(build_index(()) if old.refusal else old.index, Effect.ALLOW)
    denied = Wider(new.index, Effect.DENY)
    denies = Meeting(new.index, new.rules.rules, Effect.DENY)
    restrictions = [
        Meeting(restriction.index, restriction.rules, Effect.ALLOW) for restriction in new.rules.restrictions
    ]
    for rule in _allows(new):
        # Only these of the host's rules can cover the new one.
        decided = (*before.taking(rule.conditions), *denied.taking(rule.conditions))
        left = _left(rule.conditions, decided)
        if left and all(any(restriction.of(left)) for restriction in restrictions):
            what = str(dataclasses.replace(rule, conditions=left))
            yield Change(kind="rule", what=what, origin=rule.origin, exceptions=_exceptions(denies, left))


def _left(asked: Conditions, decided: Sequence[Rule]) -> Conditions | None:
    """Return the part of an allow, by method, scheme and port, that no rule covers; None if nothing is left."""
    if any(_decides(rule, asked) for rule in decided):
        return None
    methods, ports = asked.methods or frozenset(), asked.ports or frozenset()
    parts = [
        (method, scheme, port)
        for method, scheme, port in product(sorted(methods), sorted(asked.schemes or EVERY_SCHEME), sorted(ports))
        if not any(_decides(rule, _part(asked, method, scheme, port)) for rule in decided)
    ]
    if not parts:
        return None
    methods, schemes, ports = map(frozenset, zip(*parts, strict=True))
    return replace(asked, methods=methods, schemes=None if schemes == EVERY_SCHEME else schemes, ports=ports)


def _decides(rule: Rule, asked: Conditions) -> bool:
    # A request with a secret differs from the same one without: the server learns who sends it.
    alike = rule.effect is Effect.DENY or rule.conditions.inject == asked.inject
    # Whether a person is asked is reported as a separate change.
    conditions = replace(rule.conditions, ask=False) if rule.conditions.ask else rule.conditions
    return alike and covers(conditions, asked)


def _part(asked: Conditions, method: str, scheme: str, port: int) -> Conditions:
    return replace(asked, methods=frozenset({method}), schemes=frozenset({scheme}), ports=frozenset({port}))


def _exceptions(denies: Meeting, asked: Conditions) -> tuple[str, ...]:
    """Return the denies that exclude a part."""
    return tuple(f"{rule.origin} denies {rule}" for rule in islice(denies.of(asked), MAX_EXCEPTIONS))


def _by_denies(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the old denies that the new policy lacks, if it allows something that they denied."""
    allows = Meeting(new.index, new.rules.rules, Effect.ALLOW)
    for deny in undenied(old, new):
        if any(allows.of(deny.conditions)):
            yield Change(kind="deny", what=str(deny), origin=deny.origin)


def undenied(old: Policy, new: Policy) -> Iterator[Rule]:
    """Yield the old denies that no new deny covers, whether or not the new policy allows such requests."""
    still = Wider(new.index, Effect.DENY)
    denies = (rule for rule in old.rules.rules if rule.effect is Effect.DENY)
    return (deny for deny in denies if not any(still.covering(deny.conditions)))


def _by_questions(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the old questions that the new policy does not ask, if it allows something that they are about."""
    allows = Meeting(new.index, new.rules.rules, Effect.ALLOW)
    for rule in unasked(old, new):
        if any(allows.of(rule.conditions)):
            yield Change(kind="ask", what=str(rule), origin=rule.origin)


def unasked(old: Policy, new: Policy) -> Iterator[Rule]:
    """Yield the old questions that no new one covers, whether or not the new policy allows such requests."""
    still = Wider(new.asking.index, Effect.DENY)
    return (rule for rule in old.asking.rules if not any(still.covering(rule.conditions)))


def by_restrictions(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the old restrictions that are missing or wider in the new policy, whatever it allows."""
    for restriction in old.rules.restrictions:
        wide = Wider(restriction.index, Effect.ALLOW)
        if not any(_lies_within(other, wide) for other in new.rules.restrictions):
            yield Change(kind="ceiling", what=f"layer {restriction.origin.layer}", origin=restriction.origin)


def _lies_within(narrow: Restriction, wide: Wider) -> bool:
    return all(any(wide.covering(rule.conditions)) for rule in narrow.rules)


def _by_slashes(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the hosts that now accept `%2F`, which makes all their rules match such paths as well."""
    seen = {rule.conditions.host for rule in _allows(old) if rule.conditions.encoded_slash}
    for rule in _allows(new):
        host = rule.conditions.host
        if rule.conditions.encoded_slash and host not in seen and not _is_unknown(old, host):
            seen.add(host)
            yield Change(kind="slash", what=str(host), origin=rule.origin)


def _is_unknown(policy: Policy, host: HostPattern) -> bool:
    """Return whether the policy has no allow for this host: then all of it is a change already."""
    exact = host.reach is Reach.EXACT
    return exact and not any(rule.effect is Effect.ALLOW for rule in policy.index.rules_for(host.name))


def _by_upstream(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield new upstream settings: they make no host reachable, but can read all requests."""
    here, before = new.settings.upstream, old.settings.upstream
    if here is not None:
        known = set(before.descriptions()) if before else set()
        yield from (
            Change(kind="upstream", what=what, origin=here.origin) for what in here.descriptions() if what not in known
        )


def by_budgets(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the budgets of the sandbox and of services that the new policy lacks, or has with other amounts."""
    kept = {(one.key, one.budget) for one in new.rules.budgets}
    for one in old.rules.budgets:
        if (one.key, one.budget) not in kept:
            what = f"budget of {one.budget}" + (f" for {one.whose}" if one.service else "")
            yield Change(kind="budget", what=what, origin=one.origin)


def _by_hosts(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the hosts that become passthrough, and host services that are new or have another target."""
    seen: dict[tuple[str, str], Change] = {}
    for change in (*_unread(old, new), *_places(old, new)):
        seen.setdefault((change.kind, change.what), change)
    yield from seen.values()


def _unread(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the hosts that become passthrough: exact hosts by name, wildcards by their rules."""
    passthrough = [rule for rule in _allows(new) if _passes_through(new, rule)]
    if not passthrough:
        return
    above = Wider(old.index, Effect.ALLOW)
    still = {(rule.effect, rule.conditions) for rule in new.rules.rules}
    lost = [rule for rule in old.rules.rules if _needs_inspection(rule) and (rule.effect, rule.conditions) not in still]
    held = [Meeting(build_index(lost), lost, effect) for effect in Effect]
    for rule in passthrough:
        host, ports = rule.conditions.host, rule.conditions.ports or ()
        if host.reach is Reach.EXACT:
            opened = any(new.passthrough(host.name, n) and not old.passthrough(host.name, n) for n in ports)
        else:
            covered = any(_passes_through(old, one) for one in above.covering(rule.conditions))
            opened = not covered or any(any(rules.of(rule.conditions)) for rules in held)
        if opened:
            yield Change(kind="inspect", what=str(host), origin=rule.origin)


def _passes_through(policy: Policy, rule: Rule) -> bool:
    inspect = policy.settings.inspect if rule.conditions.inspect is None else rule.conditions.inspect
    whole = rule.effect is Effect.ALLOW and rule.conditions.of_any_request
    return whole and not inspect and not policy.rules.always_inspects


def _needs_inspection(rule: Rule) -> bool:
    """Return whether this rule requires inspection of its hosts."""
    asked = rule.conditions
    return rule.effect is Effect.DENY or not asked.of_any_request or asked.inspect is True


def _places(old: Policy, new: Policy) -> Iterator[Change]:
    origins = {rule.conditions.host: rule.origin for rule in _allows(new)} if new.rules.host_services else {}
    for row in new.rules.host_services:
        for port in sorted(row.ports) if row.asked in origins else ():
            for name in _known_names(old, row, port):
                here, before = new.host_service(name, port), old.host_service(name, port)
                if here and (before is None or here.to != before.to):
                    was = f", before to {before.to}" if before else ", now a host service"
                    what = f"{name}:{port} leads to {here.to}{was}"
                    yield Change(kind="target", what=what, origin=origins[row.asked])


def _known_names(old: Policy, row: HostServiceRow, port: int) -> list[str]:
    """Return the hosts of a host service that were allowed before; new ones are reported as a rule."""
    if row.asked.reach is Reach.EXACT:
        rules = old.index.rules_for(row.asked.name)
        return [row.asked.name] if any(_allows_port(rule, port) for rule in rules) else []
    exact = (rule.conditions.host for rule in _allows(old) if _allows_port(rule, port))
    return [host.name for host in exact if host.reach is Reach.EXACT and row.asked.matches(host.name)]


def _allows_port(rule: Rule, port: int) -> bool:
    return rule.effect is Effect.ALLOW and rule.conditions.takes_port(port)
