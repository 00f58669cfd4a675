"""Something about the rules of each host, found by host: what speaks of all of it, the host's own before wildcards."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.index import HostIndex
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_pattern import NAMED_WHOLE, HostPattern, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHost[T]:
    """What was made of an index, table by table: `below` by the suffix, below the empty one is every name."""

    exact: Mapping[str, T]
    below: Mapping[str, T]
    others: tuple[tuple[HostPattern, T], ...]

    def taking(self, host: HostPattern) -> Iterator[T]:
        """Yield what there is of the patterns that take in all of these hosts."""
        exact = host.reach is Reach.EXACT
        if exact and host.name in self.exact:
            yield self.exact[host.name]
        yield from (made for other, made in self.others if other == host or (exact and other.matches(host.name)))
        if host.reach in NAMED_WHOLE or is_address(host.name):
            return
        yield from (self.below[suffix] for suffix in suffixes(host) if suffix in self.below)


def suffixes(host: HostPattern) -> Iterator[str]:
    """Yield the names of the wildcards that may take in all of a name, or of a wildcard: itself, and those above."""
    labels = host.name.split(".") if host.name else []
    return (".".join(labels[start:]) for start in range(int(host.reach is Reach.EXACT), len(labels) + 1))


def by_host[T](index: HostIndex, effect: Effect, make: Callable[[Sequence[Rule]], T]) -> ByHost[T]:
    """Make something of the rules of each host that have an effect, the most specific first."""

    def made[K](tables: Iterable[tuple[K, Sequence[Rule]]]) -> Iterator[tuple[K, T]]:
        for key, rules in tables:
            if found := [rule for rule in rules if rule.effect is effect]:
                yield key, make(found)

    return ByHost(
        exact=dict(made((host, index.naming(host)) for host in index.exact)),
        below=dict(made(index.below.items())),
        others=tuple(made((rules[0].conditions.host, rules) for rules in index.others)),
    )
