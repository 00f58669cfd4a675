"""What a rule may say of paths: exactly one, all below one, or a glob."""

from dataclasses import dataclass
from enum import StrEnum
from typing import override

from agent_sandbox.policy.ambiguity import Ambiguous
from agent_sandbox.policy.path import canonical_path, readings
from agent_sandbox.policy.quoted import quoted
from agent_sandbox.policy.unfit import Unfit

# With both bounds the worst path costs a fixed number of steps: no pattern can run away.
MAX_STARS = 8
MAX_LENGTH = 1024
MAX_SEGMENTS = 32


class PathKind(StrEnum):
    """How a pattern is to be read; in the order of how much each one says."""

    EXACT = "exact"
    PREFIX = "prefix"
    GLOB = "glob"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPattern:
    """A set of paths, matched against one reading (`path.readings`) at a time."""

    kind: PathKind
    text: str
    reading: str
    # Of a glob: its segments, each split at its stars. `**` is the segment ("", "", "").
    segments: tuple[tuple[str, ...], ...] = ()

    def matches(self, reading: str) -> bool:
        """Tell whether the path, read so, is in the set."""
        match self.kind:
            case PathKind.EXACT:
                return reading == self.reading
            case PathKind.PREFIX:
                return reading.startswith(self.reading) and self._ends_a_segment(reading)
            case PathKind.GLOB:
                return _segments_match(self.segments, reading.split("/"))

    def _ends_a_segment(self, reading: str) -> bool:
        end = len(self.reading)
        return self.reading.endswith("/") or len(reading) == end or reading[end] == "/"

    @property
    def specificity(self) -> tuple[int, int]:
        """Order patterns from the widest to the narrowest: exact over longer over shorter."""
        return (int(self.kind is PathKind.EXACT), len(self.reading))

    @override
    def __str__(self) -> str:
        return {
            PathKind.EXACT: self.text,
            PathKind.PREFIX: f"{self.text.removesuffix('/')}/...",
            PathKind.GLOB: self.text,
        }[self.kind]


def parse_path_pattern(kind: PathKind, text: str) -> PathPattern:
    """Return the pattern, or raise Unfit.

    >>> parse_path_pattern(PathKind.PREFIX, "/v1").matches("/v10")
    False
    """
    if len(text) > MAX_LENGTH:
        raise Unfit(f"a path of a rule is at most {MAX_LENGTH} characters long")
    if "?" in text:
        raise Unfit(f"{quoted(text)} holds a query", "conditions on the query go under `query`")
    try:
        canonical = canonical_path(text)
    except Ambiguous as doubt:
        hint = "write the path as it is when resolved, from its first `/`"
        raise Unfit(f"{doubt}: {quoted(text)}", hint) from doubt
    if len(readings(canonical)) > 1:
        raise Unfit(f"{quoted(text)} holds a `;`", "servers differ on what it means: leave the parameters out")
    glob = _split(canonical) if kind is PathKind.GLOB else ()
    return PathPattern(kind=kind, text=canonical, reading=_read(canonical), segments=glob)


def _read(text: str) -> str:
    """Return the only reading of a part: it holds neither `%2F` nor `;`."""
    return readings(text)[0]


def _split(canonical: str) -> tuple[tuple[str, ...], ...]:
    if canonical.count("*") > MAX_STARS:
        raise Unfit(f"a path has at most {MAX_STARS} stars")
    segments = tuple(tuple(map(_read, segment.split("*"))) for segment in canonical.split("/"))
    if len(segments) > MAX_SEGMENTS:
        raise Unfit(f"a glob has at most {MAX_SEGMENTS} segments")
    if any(len(segment) > 2 and "" in segment[1:-1] and segment != ANY_DEPTH for segment in segments):
        raise Unfit("`**` stands for whole segments", "write `/**` or `/**/`")
    return segments


ANY_DEPTH = ("", "", "")
ANY_SEGMENT = ("", "")


def _segments_match(patterns: tuple[tuple[str, ...], ...], segments: list[str]) -> bool:
    """Match whole segments; only the last `**` is ever tried again, so the work is bounded."""
    at, retry_pattern, retry_segment = 0, -1, 0
    here = 0
    while here < len(segments):
        if at < len(patterns) and patterns[at] == ANY_DEPTH:
            # At the end `**` wants at least one segment: `/a/**` is what lies below `/a`.
            if at == len(patterns) - 1:
                return True
            retry_pattern, retry_segment = at, here
            at += 1
        elif at < len(patterns) and _segment_matches(patterns[at], segments[here]):
            at, here = at + 1, here + 1
        elif retry_pattern >= 0:
            retry_segment += 1
            at, here = retry_pattern + 1, retry_segment
        else:
            return False
    return at == len(patterns)


def _segment_matches(pieces: tuple[str, ...], segment: str) -> bool:
    """Match `a*b*c` within one segment: the ends are fixed, the middle is found from left to right."""
    if len(pieces) == 1:
        return segment == pieces[0]
    if pieces == ANY_SEGMENT:
        return segment != ""
    first, *middle, last = pieces
    if len(segment) < len(first) + len(last) or not (segment.startswith(first) and segment.endswith(last)):
        return False
    at, end = len(first), len(segment) - len(last)
    for piece in middle:
        found = segment.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
