"""Find rules that inject different secrets into the same request although neither is more specific."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec.structs import replace

from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.path import in_lower_case
from agent_sandbox.policy.match.glob import ANY_DEPTH, Segment, globs_meet
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policy.match.injection import Injection
from agent_sandbox.policy.match.path_pattern import PathKind
from agent_sandbox.problems import Problem

# Only rules that nothing simpler tells apart are compared, such as globs of one length. Comparing more takes too long.
MAX_COMPARED = 20_000
HINT = "make one of the paths more specific, or give both the same `transform`"
OTHER_NAME = "write another `client_shim: {kind: env, name: NAME}` in one of the two"
TOO_MANY = "too many similar rules with different secrets: cannot check whether two of them match the same request"
FEWER = "write paths without `*`, or give more of the rules the same `transform`"

# Equally specific rules, by their methods and by what they inject.
Alike = defaultdict[frozenset[str], defaultdict[Injection | None, list[Rule]]]


def conflicting(rules: Iterable[Rule]) -> Iterator[Problem]:
    """Yield a problem for each rule that injects something else than an equally specific earlier rule."""
    alike: defaultdict[object, Alike] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    left = iter(range(MAX_COMPARED))
    for rule in sorted((rule for rule in rules if rule.conditions.inject), key=lambda rule: rule.sort_key):
        asked, group = rule.conditions, alike[_likeness(rule.conditions)]
        compared = zip(_differing(asked, group), left, strict=False)
        other = next((other for other, _ in compared if _meet(asked, other.conditions)), None)
        if other:
            what = f"{asked.inject} would be injected into the same requests as {other.conditions.inject}"
            yield Problem(where=str(rule.origin), what=f"{what} by {other.origin}", hint=HINT)
        group[asked.methods or STANDARD][_sent(asked)].append(rule)
    if next(left, None) is None:
        yield Problem(where=str(rule.origin), what=TOO_MANY, hint=FEWER)


def shared_variables(rules: Iterable[Rule]) -> Iterator[Problem]:
    """Yield a problem for each rule whose placeholder would have a variable that is another secret's already."""
    taken: dict[str, tuple[str, Rule]] = {}
    for rule in sorted((rule for rule in rules if rule.conditions.inject), key=lambda rule: rule.sort_key):
        for credential in rule.conditions.inject.credentials if rule.conditions.inject else ():
            for name in credential.variables:
                secret, other = taken.setdefault(name, (credential.secret, rule))
                if secret != credential.secret:
                    what = f"the variable {name} cannot be a placeholder for both {credential.secret} and {secret}"
                    yield Problem(where=str(rule.origin), what=f"{what} ({other.origin})", hint=OTHER_NAME)


def _likeness(asked: Conditions) -> object:
    """Return a key that is equal for two rules if they are equally specific and may match the same request."""
    host, path = asked.host, asked.path
    where = (host.name, host.reach is Reach.EXACT)
    how = path.specificity if path else None
    # Patterns without stars overlap only if they are equal.
    text = in_lower_case(path.reading) if path and path.kind is not PathKind.GLOB else None
    return where, how, text, asked.query


def _differing(asked: Conditions, group: Alike) -> Iterator[Rule]:
    for methods, by_secret in group.items():
        if not methods.isdisjoint(asked.methods or STANDARD):
            sent = _sent(asked)
            yield from chain.from_iterable(rules for other, rules in by_secret.items() if other != sent)


def _sent(asked: Conditions) -> Injection | None:
    """Return the injection without the variables of its placeholders, which make no difference to a request."""
    inject = asked.inject
    if inject is None or not any(one.env for one in inject.credentials):
        return inject
    return replace(inject, credentials=tuple(replace(one, env="", also=(), prefix="") for one in inject.credentials))


def _meet(asked: Conditions, other: Conditions) -> bool:
    if asked.ports and other.ports and asked.ports.isdisjoint(other.ports):
        return False
    one, two = asked.path, other.path
    if one is None or two is None or PathKind.GLOB not in {one.kind, two.kind}:
        return True  # equal, because they are in the same group
    return globs_meet(_lowered(one.glob), _lowered(two.glob))


def _lowered(glob: tuple[Segment, ...]) -> tuple[Segment, ...]:
    return tuple(segment if segment == ANY_DEPTH else tuple(map(in_lower_case, segment)) for segment in glob)
