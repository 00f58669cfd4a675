"""Rules that put different secrets into one request, of which none is more specific than the other."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, product

from agent_sandbox.policy.glob import ANY_DEPTH, Segment, globs_meet
from agent_sandbox.policy.hostpattern import Reach
from agent_sandbox.policy.path import in_lower_case
from agent_sandbox.policy.pathpattern import PathKind, PathPattern
from agent_sandbox.policy.rule import Conditions, Rule
from agent_sandbox.problems import Problem

# Globs are compared with each other: more of one length are not worth the wait.
MAX_COMPARED = 1000
HINT = "which of them goes along? Write one of the paths more exactly, or give both the same `transform`"


def conflicting(rules: Iterable[Rule]) -> Iterator[Problem]:
    """Yield a problem for each rule that puts in something else than an earlier one that is as specific."""
    alike: defaultdict[object, list[Rule]] = defaultdict(list)
    for rule in sorted((rule for rule in rules if rule.conditions.inject), key=lambda rule: rule.sort_key):
        groups = [alike[key] for key in _keys(rule.conditions)]
        other = next((other for group in groups for other in _differing(rule, group)), None)
        if other:
            what = f"{rule.conditions.inject} would go into the same requests as {other.conditions.inject}"
            yield Problem(where=str(rule.origin), what=f"{what} by {other.origin}", hint=HINT)
        for group in groups:
            group.append(rule)


def _keys(asked: Conditions) -> Iterator[object]:
    """Yield what two rules have in common that are equally specific and may take the same request."""
    host, path = asked.host, asked.path
    where = (host.name, host.reach is Reach.EXACT)
    how = path.specificity if path else None
    # Patterns without stars are in common where they are equal.
    text = in_lower_case(path.reading) if path and path.kind is not PathKind.GLOB else None
    for port, method in product(sorted(asked.ports or ()), sorted(asked.methods or ())):
        yield where, how, text, port, method, asked.query


def _differing(rule: Rule, group: list[Rule]) -> Iterator[Rule]:
    for other in islice(group, MAX_COMPARED):
        if other.conditions.inject != rule.conditions.inject and _meet(rule.conditions.path, other.conditions.path):
            yield other
    # Whether it meets one of the rest nobody has looked at.
    yield from group[MAX_COMPARED : MAX_COMPARED + 1]


def _meet(one: PathPattern | None, other: PathPattern | None) -> bool:
    if one is None or other is None or PathKind.GLOB not in {one.kind, other.kind}:
        return True  # they are in one group because they are equal
    return globs_meet(_lowered(one.glob), _lowered(other.glob))


def _lowered(glob: tuple[Segment, ...]) -> tuple[Segment, ...]:
    return tuple(segment if segment == ANY_DEPTH else tuple(map(in_lower_case, segment)) for segment in glob)
