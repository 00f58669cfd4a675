"""Whether one rule's conditions cover another's.

Tools use it to find rules that are hidden, duplicated or newly reachable. Sound but not complete: True is a proof,
False can also mean that no simple proof was found.
"""

from functools import cache

from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.match.glob import ANY_DEPTH, ANY_SEGMENT, Segment, segment_matches
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, PathPattern, parse_path_pattern

EVERY_PATH = parse_path_pattern(PathKind.PREFIX, "/")
EVERY_SCHEME = frozenset({"http", "https"})
# A character that no pattern contains: it represents the text that a star of the narrower pattern matches.
ANYTHING = "\0"
WILD = frozenset({Reach.BELOW, Reach.APEX_AND_BELOW})


def covers(wide: Conditions, narrow: Conditions) -> bool:
    """Return whether every request that matches `narrow` also matches `wide`, both as allows or both as denies."""
    return (
        _host(wide.host, narrow.host)
        and _among(wide.ports, narrow.ports)
        and _among(wide.schemes, narrow.schemes or EVERY_SCHEME)
        and _among(wide.methods, narrow.methods)
        and _case(wide.path or EVERY_PATH, narrow.path or EVERY_PATH)
        and _path(wide.path or EVERY_PATH, narrow.path or EVERY_PATH)
        # An allow matches exactly these parameters, so no other query pattern covers it.
        and wide.query in {None, narrow.query}
        and _named(wide) <= _named(narrow)
        and (wide.max_body is None or (narrow.max_body is not None and narrow.max_body <= wide.max_body))
        and (wide.graphql is None or (narrow.graphql is not None and narrow.graphql.within(wide.graphql)))
        and (wide.mcp is None or (narrow.mcp is not None and narrow.mcp.within(wide.mcp)))
        and wide.inject in {None, narrow.inject}
        and wide.budget in {None, narrow.budget}
        and wide.encoded_slash >= narrow.encoded_slash
        and wide.ask <= narrow.ask
    )


def _among[T](wide: frozenset[T] | None, narrow: frozenset[T] | None) -> bool:
    return wide is None or (narrow is not None and narrow <= wide)


def _named(asked: Conditions) -> frozenset[tuple[str, str]]:
    return frozenset(asked.headers.named if asked.headers else ())


def _host(wide: HostPattern, narrow: HostPattern) -> bool:
    if wide.reach is Reach.EVERY and narrow.reach in WILD:
        return True
    if not {narrow.reach, wide.reach} <= WILD:
        return wide == narrow or (narrow.reach is Reach.EXACT and wide.matches(narrow.name))
    same = wide.name == narrow.name and (wide.reach is narrow.reach or wide.reach is Reach.APEX_AND_BELOW)
    return same or narrow.name.endswith(f".{wide.name}")


def _case(wide: PathPattern, narrow: PathPattern) -> bool:
    """Return whether the wider pattern ignores case wherever the narrower one does."""
    return narrow.any_case is None or wide == EVERY_PATH or wide.any_case in {narrow.any_case, WHOLE}


def _path(wide: PathPattern, narrow: PathPattern) -> bool:
    match wide.kind, narrow.kind:
        case _, PathKind.EXACT:
            return wide.matches(narrow.reading)
        case PathKind.PREFIX, PathKind.PREFIX:
            return wide.matches(narrow.reading)
        case PathKind.PREFIX, PathKind.GLOB:
            return _template(narrow.glob).startswith(wide.below)
        case PathKind.GLOB, PathKind.PREFIX:
            below = tuple((part,) for part in narrow.below.removesuffix("/").split("/"))
            return wide.matches(narrow.reading) and _glob(wide.glob, (*below, ANY_DEPTH))
        case PathKind.GLOB, PathKind.GLOB:
            return _glob(wide.glob, narrow.glob)
    return False


def _template(glob: tuple[Segment, ...]) -> str:
    return "/".join(map(ANYTHING.join, glob))


def _glob(wide: tuple[Segment, ...], narrow: tuple[Segment, ...]) -> bool:
    """Compare both from left to right, each pair of positions once."""

    @cache
    def from_here(mine: int, theirs: int) -> bool:
        if mine == len(wide) or theirs == len(narrow):
            return (mine, theirs) == (len(wide), len(narrow))
        if wide[mine] != ANY_DEPTH:
            return _segment(wide[mine], narrow[theirs]) and from_here(mine + 1, theirs + 1)
        # A final `**` takes at least one segment, and the narrower glob has one. Elsewhere it takes none or more.
        return mine == len(wide) - 1 or from_here(mine + 1, theirs) or from_here(mine, theirs + 1)

    return from_here(0, 0)


def _segment(wide: Segment, narrow: Segment) -> bool:
    if len(wide) == 1 or narrow in {ANY_DEPTH, ANY_SEGMENT}:
        return wide == narrow
    return segment_matches(wide, ANYTHING.join(narrow))
