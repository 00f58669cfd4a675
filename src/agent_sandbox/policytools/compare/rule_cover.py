"""Find the rules that cover another, by host and path, fast for any number of rules."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.index import HostIndex
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policytools.compare.by_host import by_host
from agent_sandbox.policytools.compare.path_tree import PathTree

# Up to this many rules of a host are tried one by one.
FEW = 12


class Table(Protocol):
    """Rules of a host, the most specific first."""

    def taking(self, asked: Conditions) -> Iterable[Rule]:
        """Return, in order, the rules that may cover the conditions by path, query and headers."""


class FewRules(tuple[Rule, ...]):
    """A few rules, which are tried one by one."""

    __slots__ = ()

    def taking(self, asked: Conditions) -> Iterable[Rule]:  # noqa: ARG002 - used by tables of many rules
        """Return all rules."""
        return self


class Wider:
    """The rules of an index with one effect."""

    def __init__(self, index: HostIndex, effect: Effect) -> None:
        self._tables = by_host(index, effect, _table)

    def taking(self, asked: Conditions) -> Iterator[Rule]:
        """Yield the rules that may cover the conditions, ignoring methods, schemes and ports.

        Rules for the exact host come first, the most specific ones before others.
        """
        for table in self._tables.taking(asked.host):
            yield from table.taking(asked)

    def covering(self, asked: Conditions) -> Iterator[Rule]:
        """Yield the rules that provably cover the conditions, in the same order."""
        return (rule for rule in self.taking(asked) if covers(rule.conditions, asked))


def _table(rules: Sequence[Rule]) -> Table:
    return FewRules(rules) if len(rules) <= FEW else PathTree(rules)
