"""A table of values by host, computed from the rules of each host. Exact hosts come before wildcards."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.index import HostIndex
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_pattern import NAMED_WHOLE, HostPattern, Reach


class ByHost[T](Struct, frozen=True, kw_only=True):
    """The values for an index, table by table: `below` is by suffix, and every name is below the empty suffix."""

    exact: Mapping[str, T]
    below: Mapping[str, T]
    others: tuple[tuple[HostPattern, T], ...]

    def taking(self, host: HostPattern) -> Iterator[T]:
        """Yield the values of all patterns that cover this one."""
        exact = host.reach is Reach.EXACT
        if exact and host.name in self.exact:
            yield self.exact[host.name]
        yield from (made for other, made in self.others if other == host or (exact and other.matches(host.name)))
        if host.reach in NAMED_WHOLE or is_address(host.name):
            return
        yield from (self.below[suffix] for suffix in suffixes(host) if suffix in self.below)


def suffixes(host: HostPattern) -> Iterator[str]:
    """Yield the suffixes of the wildcards that may cover this name or wildcard, the longest first."""
    labels = host.name.split(".") if host.name else []
    return (".".join(labels[start:]) for start in range(int(host.reach is Reach.EXACT), len(labels) + 1))


def by_host[T](index: HostIndex, effect: Effect, make: Callable[[Sequence[Rule]], T]) -> ByHost[T]:
    """Return a table with `make` applied to the rules of each host with this effect, the most specific first."""

    def made[K](tables: Iterable[tuple[K, Sequence[Rule]]]) -> Iterator[tuple[K, T]]:
        for key, rules in tables:
            if found := [rule for rule in rules if rule.effect is effect]:
                yield key, make(found)

    return ByHost(
        exact=dict(made((host, index.naming(host)) for host in index.exact)),
        below=dict(made(index.below.items())),
        others=tuple(made((rules[0].conditions.host, rules) for rules in index.others)),
    )
