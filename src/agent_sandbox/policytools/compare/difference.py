"""What becomes reachable between two policies, and what stops: by what they mean, not by how they are written.

Nothing that opens is left out: a request that the new policy allows and the old one does not is always within one of
the changes. A change may name more than that, where two rules together say what one said before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Requests that pass on one side alone. `what` says which, `origin` where the line stands that makes the change.

    `kind` is `rule` for a rule that is there on one side alone, `deny` and `ceiling` for what is there on the other
    side alone, `slash`, `inspect` and `target` for what a whole host is subject to, `upstream` for what a company puts
    between.
    """

    kind: str
    what: str
    origin: Origin
    exceptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What becomes reachable, and what stops."""

    opens: tuple[Change, ...]
    stops: tuple[Change, ...]


def difference(old: Policy, new: Policy) -> Difference:
    """Compare two policies."""
    return Difference(opens=tuple(_opens(old, new)), stops=tuple(_opens(new, old)))


def _opens(old: Policy, new: Policy) -> Iterator[Change]:
    if new.refusal:
        return
    yield from _by_rules(old, new)
    yield from _by_denies(old, new)
    yield from by_ceilings(old, new)
    yield from _by_slashes(old, new)
    yield from _by_hosts(old, new)
    yield from _by_upstream(old, new)


def _allows(policy: Policy) -> Iterator[Rule]:
    return (rule for rule in policy.rules.rules if rule.effect is Effect.ALLOW)


def _by_rules(old: Policy, new: Policy) -> Iterator[Change]:
    before = Wider(build_index(()) if old.refusal else old.index, Effect.ALLOW)
    denied = Wider(new.index, Effect.DENY)
    denies = Meeting(new.index, new.rules.rules, Effect.DENY)
    ceilings = [Meeting(ceiling.index, ceiling.rules, Effect.ALLOW) for ceiling in new.rules.ceilings]
    for rule in _allows(new):
        # Of the many rules that a host may have, these alone decide about one more.
        decided = (*before.taking(rule.conditions), *denied.taking(rule.conditions))
        left = _left(rule.conditions, decided)
        if left and all(any(ceiling.of(left)) for ceiling in ceilings):
            what = str(replace(rule, conditions=left))
            yield Change(kind="rule", what=what, origin=rule.origin, exceptions=_exceptions(denies, left))


def _left(asked: Conditions, decided: Sequence[Rule]) -> Conditions | None:
    """Return what of an allow none of the rules takes in, by method, scheme and port; None where nothing is left."""
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
    # What was allowed without a secret is something else with one: it tells a server who asks.
    alike = rule.effect is Effect.DENY or rule.conditions.inject == asked.inject
    return alike and covers(rule.conditions, asked)


def _part(asked: Conditions, method: str, scheme: str, port: int) -> Conditions:
    return replace(asked, methods=frozenset({method}), schemes=frozenset({scheme}), ports=frozenset({port}))


def _exceptions(denies: Meeting, asked: Conditions) -> tuple[str, ...]:
    """Return the denies that take a part back."""
    return tuple(f"{rule.origin} denies {rule}" for rule in islice(denies.of(asked), MAX_EXCEPTIONS))


def _by_denies(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the old denies that the new policy does not hold, where it allows something of what they denied."""
    allows = Meeting(new.index, new.rules.rules, Effect.ALLOW)
    for deny in undenied(old, new):
        if any(allows.of(deny.conditions)):
            yield Change(kind="deny", what=str(deny), origin=deny.origin)


def undenied(old: Policy, new: Policy) -> Iterator[Rule]:
    """Yield the old denies that no new one takes in, whatever the new policy allows by itself."""
    still = Wider(new.index, Effect.DENY)
    denies = (rule for rule in old.rules.rules if rule.effect is Effect.DENY)
    return (deny for deny in denies if not any(still.covering(deny.conditions)))


def by_ceilings(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the old ceilings that no new one lies within, whatever the new policy allows by itself."""
    for ceiling in old.rules.ceilings:
        wide = Wider(ceiling.index, Effect.ALLOW)
        if not any(_lies_within(other, wide) for other in new.rules.ceilings):
            yield Change(kind="ceiling", what=f"layer {ceiling.origin.layer}", origin=ceiling.origin)


def _lies_within(narrow: Restriction, wide: Wider) -> bool:
    return all(any(wide.covering(rule.conditions)) for rule in narrow.rules)


def _by_slashes(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the hosts at which `%2F` can be read now: whatever else is allowed there then holds for such paths too."""
    seen = {rule.conditions.host for rule in _allows(old) if rule.conditions.encoded_slash}
    for rule in _allows(new):
        host = rule.conditions.host
        if rule.conditions.encoded_slash and host not in seen and not _is_unknown(old, host):
            seen.add(host)
            yield Change(kind="slash", what=str(host), origin=rule.origin)


def _is_unknown(policy: Policy, host: HostPattern) -> bool:
    """Tell whether nothing of this host is allowed: all of it is a change already."""
    exact = host.reach is Reach.EXACT
    return exact and not any(rule.effect is Effect.ALLOW for rule in policy.index.rules_for(host.name))


def _by_upstream(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield what all connections are subject to that they were not: it opens no host, and may read them all."""
    here, before = new.settings.upstream, old.settings.upstream
    if here is not None:
        known = set(before.told()) if before else set()
        yield from (Change(kind="upstream", what=what, origin=here.origin) for what in here.told() if what not in known)


def _by_hosts(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the hosts that are no longer looked into, and the private places that were none or lead elsewhere."""
    seen: dict[tuple[str, str], Change] = {}
    for change in (*_unread(old, new), *_places(old, new)):
        seen.setdefault((change.kind, change.what), change)
    yield from seen.values()


def _unread(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the hosts that go through unopened: one by its name, many by their rules, as no name speaks for all."""
    unopened = [rule for rule in _allows(new) if _goes_unopened(new, rule)]
    if not unopened:
        return
    above = Wider(old.index, Effect.ALLOW)
    still = {(rule.effect, rule.conditions) for rule in new.rules.rules}
    lost = [rule for rule in old.rules.rules if _is_held(rule) and (rule.effect, rule.conditions) not in still]
    held = [Meeting(build_index(lost), lost, effect) for effect in Effect]
    for rule in unopened:
        host, ports = rule.conditions.host, rule.conditions.ports or ()
        if host.reach is Reach.EXACT:
            opened = any(new.passthrough(host.name, n) and not old.passthrough(host.name, n) for n in ports)
        else:
            covered = any(_goes_unopened(old, one) for one in above.covering(rule.conditions))
            opened = not covered or any(any(rules.of(rule.conditions)) for rules in held)
        if opened:
            yield Change(kind="inspect", what=str(host), origin=rule.origin)


def _goes_unopened(policy: Policy, rule: Rule) -> bool:
    inspect = policy.settings.inspect if rule.conditions.inspect is None else rule.conditions.inspect
    whole = rule.effect is Effect.ALLOW and rule.conditions.of_any_request
    return whole and not inspect and not policy.rules.always_inspects


def _is_held(rule: Rule) -> bool:
    """Tell whether this rule has its hosts looked into."""
    asked = rule.conditions
    return rule.effect is Effect.DENY or not asked.of_any_request or asked.inspect is True


def _places(old: Policy, new: Policy) -> Iterator[Change]:
    origins = {rule.conditions.host: rule.origin for rule in _allows(new)} if new.rules.host_services else {}
    for row in new.rules.host_services:
        for port in sorted(row.ports) if row.asked in origins else ():
            for name in _known_names(old, row, port):
                here, before = new.host_service(name, port), old.host_service(name, port)
                if here and (before is None or here.to != before.to):
                    led = f", and led to {before.to}" if before else ", a private place now"
                    what = f"{name}:{port} leads to {here.to}{led}"
                    yield Change(kind="target", what=what, origin=origins[row.asked])


def _known_names(old: Policy, row: HostServiceRow, port: int) -> list[str]:
    """Return the hosts of a place that something was allowed of: what is new altogether is told as a rule."""
    if row.asked.reach is Reach.EXACT:
        rules = old.index.rules_for(row.asked.name)
        return [row.asked.name] if any(_allows_port(rule, port) for rule in rules) else []
    exact = (rule.conditions.host for rule in _allows(old) if _allows_port(rule, port))
    return [host.name for host in exact if host.reach is Reach.EXACT and row.asked.matches(host.name)]


def _allows_port(rule: Rule, port: int) -> bool:
    return rule.effect is Effect.ALLOW and rule.conditions.takes_port(port)
