"""A tree of one host's rules by path, to find the rules that may cover another without trying each."""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from heapq import merge
from itertools import product

from msgspec import Struct

from agent_sandbox.policy.engine.covers import ANYTHING, EVERY_PATH
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.path import in_lower_case
from agent_sandbox.policy.http.query import QueryPattern
from agent_sandbox.policy.match.glob import ANY_DEPTH, Segment, segment_matches
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, PathPattern

type Header = tuple[str, str] | None
# The query and the first header; in a key after whether the path is a prefix.
type Asked = tuple[QueryPattern | None, Header]
type Key = tuple[bool, QueryPattern | None, Header]


class Case(Enum):
    """Which part of a path is case-insensitive."""

    NOWHERE = "nowhere"
    PARTLY = "partly"
    ANYWHERE = "anywhere"


class Node(Struct):
    """The rules whose paths end here, by position in the table, and the following segments.

    `wild` indexes segments with stars by the lengths of their fixed start and end, then by these texts.
    """

    rules: dict[Key, list[int]] = {}
    below: dict[Segment, "Node"] = {}
    wild: dict[tuple[int, int], dict[tuple[str, str], list[Segment]]] = {}

    def make(self, segment: Segment) -> "Node":
        """Return the node for a segment, created if missing."""
        if segment not in self.below:
            self.below[segment] = Node()
            if len(segment) > 1 and segment != ANY_DEPTH:
                ends = (segment[0], segment[-1])
                lengths = (len(ends[0]), len(ends[1]))
                self.wild.setdefault(lengths, {}).setdefault(ends, []).append(segment)
        return self.below[segment]

    def after(self, segment: Segment) -> Iterator["Node"]:
        """Yield the nodes of segments that cover this one, except `**`."""
        if len(segment) == 1 and segment in self.below:
            yield self.below[segment]
        text = ANYTHING.join(segment)
        for (first, last), by_ends in self.wild.items() if segment != ANY_DEPTH else ():
            for found in by_ends.get((text[:first], text[len(text) - last :]), ()):
                if segment_matches(found, text):
                    yield self.below[found]


class PathTree:
    """Rules in a fixed order, in a tree by the segments of their paths."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._roots: dict[Case, Node] = {}
        for place, rule in enumerate(rules):
            asked = rule.conditions
            path = asked.path or EVERY_PATH
            node = self._roots.setdefault(_case(path), Node())
            for segment in _within(path):
                node = node.make(segment)
            key = (path.kind is PathKind.PREFIX, asked.query, asked.headers.named[0] if asked.headers else None)
            node.rules.setdefault(key, []).append(place)

    def taking(self, asked: Conditions) -> Iterator[Rule]:
        """Yield, in order, all rules that cover the conditions, and perhaps more."""
        headers: set[Header] = {None, *(asked.headers.named if asked.headers else ())}
        keys = list(product({None, asked.query}, headers))
        path = asked.path or EVERY_PATH
        found = [places for case, root in self._roots.items() for places in _along(root, _asked(path, case), keys)]
        for place in merge(*found):
            yield self._rules[place]


def _case(path: PathPattern) -> Case:
    if path.any_case is None:
        return Case.NOWHERE
    return Case.ANYWHERE if path.any_case == WHOLE else Case.PARTLY


def _within(path: PathPattern) -> Sequence[Segment]:
    """Return the segments of a covering path; if part of it is case-insensitive, all in lower case."""
    text = path.below.removesuffix("/") if path.kind is PathKind.PREFIX else path.reading
    segments = path.glob if path.kind is PathKind.GLOB else _literal(text)
    return _lowered(segments) if _case(path) is Case.PARTLY else segments


def _asked(path: PathPattern, case: Case) -> Sequence[Segment]:
    """Return the segments of a path to be covered, as `covers` compares them with paths of this case."""
    if path.kind is PathKind.GLOB:
        segments: Sequence[Segment] = path.glob
    else:
        text = path.below.removesuffix("/") if path.kind is PathKind.PREFIX else path.reading
        segments = _literal(in_lower_case(text) if case is Case.ANYWHERE else text)
        segments = [*segments, ANY_DEPTH] if path.kind is PathKind.PREFIX else segments
    return _lowered(segments) if case is Case.PARTLY else segments


def _literal(text: str) -> list[Segment]:
    return [(part,) for part in text.split("/")]


def _lowered(segments: Iterable[Segment]) -> list[Segment]:
    return [tuple(map(str.lower, segment)) for segment in segments]


def _along(root: Node, segments: Sequence[Segment], keys: Sequence[Asked]) -> Iterator[list[int]]:
    """Yield the positions of the rules along these segments that have one of the keys."""
    todo, seen = [(root, 0)], set[tuple[int, int]]()
    while todo:
        node, at = todo.pop()
        if (id(node), at) in seen:
            continue
        seen.add((id(node), at))
        ends = (True, False) if at == len(segments) else (True,)
        yield from (node.rules[end, *key] for end in ends for key in keys if (end, *key) in node.rules)
        if deep := node.below.get(ANY_DEPTH):
            # `**` matches no segment, or any number of the following ones.
            todo += [(deep, further) for further in range(at, len(segments) + 1)]
        if at < len(segments):
            todo += [(following, at + 1) for following in node.after(segments[at])]
