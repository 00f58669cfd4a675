"""Find the rules that may match some of the same requests, by host and then by ports, schemes and methods."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import merge
from operator import itemgetter

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.index import HostIndex
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_pattern import NAMED_WHOLE, HostPattern, Reach
from agent_sandbox.policytools.compare.by_host import by_host, suffixes

# The character that sorts right after the dot.
AFTER_DOT = "/"
# A rule and its position in an order.
type Placed = tuple[int, Rule]
type Sets = tuple[frozenset[int] | None, frozenset[str] | None, frozenset[str] | None]


class Kinds:
    """Ordered rules, grouped by ports, schemes and methods, of which there are few combinations."""

    __slots__ = ("_placed",)

    def __init__(self, placed: Iterable[Placed]) -> None:
        self._placed: defaultdict[Sets, list[Placed]] = defaultdict(list)
        for place, rule in placed:
            self._placed[sets_of(rule.conditions)].append((place, rule))

    def of(self, asked: Conditions) -> Iterator[list[Placed]]:
        """Yield each group whose rules may match a request that the conditions match."""
        mine = sets_of(asked)
        return (placed for theirs, placed in self._placed.items() if not sets_apart(mine, theirs))


class Meeting:
    """The rules with one effect, given as `rules` and as their index."""

    def __init__(self, index: HostIndex, rules: Iterable[Rule], effect: Effect) -> None:
        self._of_hosts = by_host(index, effect, lambda found: Kinds(enumerate(found)))
        self._of_patterns = Patterns([rule for rule in rules if rule.effect is effect])

    def of(self, asked: Conditions) -> Iterator[Rule]:
        """Yield the overlapping rules: for an exact host the most specific first, otherwise in their given order."""
        if asked.host.reach is Reach.EXACT:
            for kinds in self._of_hosts.taking(asked.host):
                yield from _in_order(kinds.of(asked))
        else:
            every = self._of_patterns.kinds(asked.host)
            yield from _in_order(placed for kinds in every for placed in kinds.of(asked))


def _in_order(found: Iterable[list[Placed]]) -> Iterator[Rule]:
    return (rule for _, rule in merge(*found, key=itemgetter(0)))


class Patterns:
    """Rules by the hosts that they share with a wildcard, host list or network; computed on demand."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._placed = tuple(enumerate(rules))
        self._known: dict[HostPattern, Kinds] = {}

    def kinds(self, host: HostPattern) -> Iterator[Kinds]:
        """Yield the groups of rules that may share a host with this pattern."""
        if host not in self._known:
            found = self._beside(host) if host.reach in NAMED_WHOLE else self._below(host)
            self._known[host] = Kinds(sorted(found, key=itemgetter(0)))
        yield self._known[host]
        if host.reach not in NAMED_WHOLE:
            yield from (self._wild[suffix] for suffix in suffixes(host) if suffix in self._wild)

    @cached_property
    def _wild(self) -> dict[str, Kinds]:
        found: defaultdict[str, list[Placed]] = defaultdict(list)
        for placed in self._placed:
            host = placed[1].conditions.host
            if host.reach is not Reach.EXACT and host.reach not in NAMED_WHOLE:
                found[host.name].append(placed)
        return {name: Kinds(placed) for name, placed in found.items()}

    @cached_property
    def _names(self) -> list[tuple[str, Placed]]:
        """The rules by reversed host name: sorted this way, all names below a name are adjacent."""
        hosts = ((placed[1].conditions.host, placed) for placed in self._placed)
        return sorted(
            (_from_its_end(host.name), placed)
            for host, placed in hosts
            if host.reach not in NAMED_WHOLE and not is_address(host.name)
        )

    @cached_property
    def _listed(self) -> list[Placed]:
        return [placed for placed in self._placed if placed[1].conditions.host.reach is Reach.LISTED]

    def _below(self, host: HostPattern) -> Iterator[Placed]:
        """Yield the rules for names below a wildcard, and those with a host list."""
        yield from self._listed
        spelled, key = _from_its_end(host.name), itemgetter(0)
        start = bisect_left(self._names, spelled, key=key)
        end = bisect_left(self._names, f"{spelled[:-1]}{AFTER_DOT}", key=key) if spelled else len(self._names)
        for _, placed in self._names[start:end]:
            other = placed[1].conditions.host
            if other.name != host.name or (other.reach, host.reach) == (Reach.EXACT, Reach.APEX_AND_BELOW):
                yield placed

    def _beside(self, host: HostPattern) -> Iterator[Placed]:
        """Yield the rules that may share a host with a host list or network; there are few of these patterns."""
        return (placed for placed in self._placed if not hosts_apart(placed[1].conditions.host, host))


def _from_its_end(name: str) -> str:
    return "".join(f"{label}." for label in reversed(name.split("."))) if name else ""


def sets_of(asked: Conditions) -> Sets:
    """Return the ports, schemes and methods of a rule."""
    return asked.ports, asked.schemes, asked.methods


def sets_apart(one: Sets, other: Sets) -> bool:
    """Return whether no request has a port, a scheme and a method of both."""
    return any(
        mine is not None and theirs is not None and mine.isdisjoint(theirs)
        for mine, theirs in zip(one, other, strict=True)
    )


def hosts_apart(one: HostPattern, other: HostPattern) -> bool:
    """Return whether no host matches both."""
    for exact, pattern in ((one, other), (other, one)):
        if exact.reach is Reach.EXACT:
            return not pattern.matches(exact.name)
    if Reach.LISTED in {one.reach, other.reach}:
        return Reach.NETWORK in {one.reach, other.reach}
    if Reach.NETWORK in {one.reach, other.reach}:
        # A name or wildcard never matches an address; two networks are not compared.
        return one.reach is not other.reach
    if Reach.EVERY in {one.reach, other.reach}:
        return False
    return not any(f".{mine.name}".endswith(f".{theirs.name}") for mine, theirs in ((one, other), (other, one)))
