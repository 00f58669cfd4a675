"""Which rules take in all of another: found by host and by path, however many rules there are."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.index import HostIndex
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policytools.compare.by_host import by_host
from agent_sandbox.policytools.compare.path_tree import PathTree

# Up to so many rules of a host are looked at one by one.
FEW = 12


class Table(Protocol):
    """Rules of a host, the most specific first."""

    def taking(self, asked: Conditions) -> Iterable[Rule]:
        """Return, in their order, at least the rules that take in all of this, whatever its methods and ports."""


class FewRules(tuple[Rule, ...]):
    """Few enough to be looked at one by one."""

    __slots__ = ()

    def taking(self, asked: Conditions) -> Iterable[Rule]:  # noqa: ARG002 - what many rules go by
        """Return all of them."""
        return self


class Wider:
    """The rules of an index that have an effect."""

    def __init__(self, index: HostIndex, effect: Effect) -> None:
        self._tables = by_host(index, effect, _table)

    def taking(self, asked: Conditions) -> Iterator[Rule]:
        """Yield at least the rules that take in all of this, whatever its methods, schemes and ports.

        Those of the host itself come first, and of these the most specific.
        """
        for table in self._tables.taking(asked.host):
            yield from table.taking(asked)

    def covering(self, asked: Conditions) -> Iterator[Rule]:
        """Yield the rules of which `covers` proves it, in the same order."""
        return (rule for rule in self.taking(asked) if covers(rule.conditions, asked))


def _table(rules: Sequence[Rule]) -> Table:
    return FewRules(rules) if len(rules) <= FEW else PathTree(rules)
