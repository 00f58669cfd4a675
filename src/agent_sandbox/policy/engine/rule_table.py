"""The rules of one host, the most specific first: a few are tried one by one, many are found by path."""

from collections.abc import Sequence
from typing import override

from msgspec import Struct

from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.http.path import segments_of, served_as
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, PathPattern

# Trying up to this many rules is faster than splitting the path.
FEW = 12


class Rules(tuple[Rule, ...]):
    """The rules of a host."""

    __slots__ = ()

    def about(self, readings: Readings) -> tuple[Rule, ...]:  # noqa: ARG002 - used by tables of many rules
        """Return the rules that could match such a path, and perhaps a few more, in order."""
        return self


NO_RULES = Rules()


class Node(Struct, frozen=True):
    """A node of the trie: positions in the table of the rules whose paths begin with the segments that lead here."""

    rules: list[int] = []
    below: dict[str, "Node"] = {}


class ManyRules(Rules):
    """The rules of a host that has many, in a trie of the literal segments that their paths begin with.

    Case-insensitive paths are in a second trie, which is searched in lower case.
    """

    tries: tuple[tuple[Node, bool], ...]

    @override
    def about(self, readings: Readings) -> tuple[Rule, ...]:
        found: list[int] = []
        for root, in_any_case in self.tries:
            found += root.rules
            for reading in served_as(readings) if in_any_case else readings:
                node = root
                for segment in segments_of(reading):
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
    if len(rules) < 2:  # most hosts have one, and building a sort key costs more than finding the rule
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
    """Return the literal segments that every path of the pattern begins with."""
    if path is None:
        return []
    if path.any_case and path.any_case != WHOLE:
        return path.reading[: path.any_case[0]].split("/")[:-1]
    if path.kind is not PathKind.GLOB:
        return path.below.removesuffix("/").split("/") if path.kind is PathKind.PREFIX else path.reading.split("/")
    stars = (number for number, segment in enumerate(path.glob) if len(segment) > 1)
    return [segment[0] for segment in path.glob[: next(stars, len(path.glob))]]
