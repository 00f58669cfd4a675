"""The rules of one host, the most specific first: a few are looked at one by one, many are found by the path."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import override

from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.http.path import in_lower_case, segments_of
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, PathPattern

# Up to so many rules are asked sooner than a path is taken apart.
FEW = 12


class Rules(tuple[Rule, ...]):
    """Some rules of a host."""

    __slots__ = ()

    def about(self, readings: Readings) -> tuple[Rule, ...]:  # noqa: ARG002 - what many rules go by
        """Return at least those that could take such a path, in their order."""
        return self


NO_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Node:
    """The rules whose paths begin with the segments that lead here, by their places in the table."""

    rules: list[int] = field(default_factory=list)
    below: dict[str, "Node"] = field(default_factory=dict)


class ManyRules(Rules):
    """Rules of a host that has many, in a trie of the literal segments that their paths begin with.

    Those whose paths count in any case are in one of their own, which is asked in lower case.
    """

    tries: tuple[tuple[Node, bool], ...]

    @override
    def about(self, readings: Readings) -> tuple[Rule, ...]:
        found: list[int] = []
        for root, in_any_case in self.tries:
            found += root.rules
            for reading in readings:
                node = root
                for segment in segments_of(in_lower_case(reading) if in_any_case else reading):
                    following = node.below.get(segment)
                    if following is None:
                        break
                    node = following
                    found += node.rules
        if len(found) == 1:
            return (self[found[0]],)
        return tuple([self[place] for place in sorted(set(found))])


def rules_of_host(rules: Sequence[Rule]) -> Rules:
    """Return the table of a host's rules."""
    if len(rules) < 2:  # most hosts have one, and a key takes longer to make than a rule to find
        return Rules(rules)
    ordered = sorted(rules, key=lambda rule: rule.sort_key)
    if len(ordered) <= FEW:
        return Rules(ordered)
    table = ManyRules(ordered)
    tries = {False: Node(), True: Node()}
    for place, rule in enumerate(ordered):
        path = rule.conditions.path
        node = tries[path is not None and path.any_case == WHOLE]
        for segment in _beginning(path):
            node = node.below.setdefault(segment, Node())
        node.rules.append(place)
    table.tries = tuple((root, lower) for lower, root in tries.items() if root.rules or root.below)
    return table


def _beginning(path: PathPattern | None) -> list[str]:
    """Return the segments that every path in the pattern begins with."""
    if path is None:
        return []
    if path.any_case and path.any_case != WHOLE:
        return path.reading[: path.any_case[0]].split("/")[:-1]
    if path.kind is not PathKind.GLOB:
        return path.below.removesuffix("/").split("/") if path.kind is PathKind.PREFIX else path.reading.split("/")
    stars = (number for number, segment in enumerate(path.glob) if len(segment) > 1)
    return [segment[0] for segment in path.glob[: next(stars, len(path.glob))]]
