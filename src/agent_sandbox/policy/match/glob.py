"""Path globs: `*` within a segment, `**` for whole segments. Matching goes left to right, in bounded steps."""

from collections.abc import Iterator
from functools import cache

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.path import readings, segments_of

MAX_STARS = 8
MAX_SEGMENTS = 32

# A segment is split at its stars: `a*b` is ("a", "b"). Without a star it is one piece.
Segment = tuple[str, ...]
ANY_SEGMENT: Segment = ("", "")
ANY_DEPTH: Segment = ("", "", "")


def split_glob(canonical: str) -> tuple[Segment, ...]:
    """Return the segments of a canonical path with stars. They are decoded after the split: `%2A` is a literal star."""
    if canonical.count("*") > MAX_STARS:
        raise InvalidValue(f"more than {MAX_STARS} stars in a path")
    segments = tuple(tuple(readings(piece)[0] for piece in part.split("*")) for part in canonical.split("/"))
    if len(segments) > MAX_SEGMENTS:
        raise InvalidValue(f"more than {MAX_SEGMENTS} segments in a glob")
    if any("" in segment[1:-1] and segment != ANY_DEPTH for segment in segments):
        raise InvalidValue("`**` has to be a whole segment", "write `/**` or `/**/`")
    return segments


def glob_matches(glob: tuple[Segment, ...], path: str) -> bool:
    """Return whether the path matches the glob.

    The part before the first `**` is fixed at the start, the part after the last one at the end. Each part between two
    is matched at the first possible position, which leaves the most room for the following ones.
    """
    segments = segments_of(path)
    if glob[-1] != ANY_DEPTH and not segment_matches(glob[-1], segments[-1]):
        return False  # most paths end otherwise
    if ANY_DEPTH not in glob:
        return len(glob) == len(segments) and _all_match(glob, segments, 0)
    first, last = glob.index(ANY_DEPTH), len(glob) - 1 - glob[::-1].index(ANY_DEPTH)
    # In the middle, `**` can match no segment; at the end it matches at least one: `/a/**` does not match `/a`.
    end = len(segments) - max(len(glob) - 1 - last, 1)
    if first > end or not _all_match(glob[:first], segments, 0):
        return False
    if last + 1 < len(glob) and not _all_match(glob[last + 1 :], segments, end):
        return False
    at, part = first, first + 1
    while part <= last:
        following = glob.index(ANY_DEPTH, part)
        if part < following:
            at = _behind(glob[part:following], segments, at, end)
        if at < 0:
            return False
        part = following + 1
    return True


def _behind(part: tuple[Segment, ...], segments: tuple[str, ...], at: int, end: int) -> int:
    """Return the position after the first match of this part in the segments from `at` to `end`, or -1."""
    if len(part[0]) == 1 and part[0][0] not in segments:
        return -1
    for start in range(at, end - len(part) + 1):
        if segment_matches(part[0], segments[start]) and _all_match(part, segments, start):
            return start + len(part)
    return -1


def _all_match(part: tuple[Segment, ...], segments: tuple[str, ...], start: int) -> bool:
    return all(map(segment_matches, part, segments[start : start + len(part)]))


def glob_follows(glob: tuple[Segment, ...], path: str) -> int:
    """Return how many leading segments of the path match the glob: where the difference begins."""
    places, segments = {0}, path.split("/")
    for number, segment in enumerate(segments):
        places = {place for before in places for place in _after(glob, before, segment)}
        if not places:
            return number
    return len(segments)


def _after(glob: tuple[Segment, ...], place: int, segment: str) -> Iterator[int]:
    """Yield the possible positions in the glob after this segment."""
    if place == len(glob):
        return
    if glob[place] != ANY_DEPTH:
        if segment_matches(glob[place], segment):
            yield place + 1
        return
    yield place
    yield place + 1
    # In the middle, `**` can match no segment; at the end it matches at least one: `/a/**` does not match `/a`.
    if place + 1 < len(glob):
        yield from _after(glob, place + 1, segment)


def segment_matches(pieces: Segment, segment: str) -> bool:
    """Return whether the segment matches, such as `a*b*c`: the ends are fixed, the middle is found left to right."""
    if len(pieces) == 1:
        return segment == pieces[0]
    if pieces == ANY_SEGMENT:
        return segment != ""
    first, *middle, last = pieces
    at, end = len(first), len(segment) - len(last)
    if at > end or not (segment.startswith(first) and segment.endswith(last)):
        return False
    for piece in middle:
        found = segment.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def globs_meet(one: tuple[Segment, ...], other: tuple[Segment, ...]) -> bool:
    """Return whether some path may match both; False is a proof.

    >>> globs_meet(split_glob("/a/**"), split_glob("/*/b")), globs_meet(split_glob("/a/*"), split_glob("/b/*"))
    (True, False)
    """

    @cache
    def meet(mine: int, theirs: int) -> bool:
        rest, others = one[mine:], other[theirs:]
        if rest[:1] == (ANY_DEPTH,):
            return meet(mine + 1, theirs) or (bool(others) and meet(mine, theirs + 1))
        if others[:1] == (ANY_DEPTH,):
            return meet(mine, theirs + 1) or (bool(rest) and meet(mine + 1, theirs))
        if not rest or not others:
            return rest == others
        return _segments_meet(rest[0], others[0]) and meet(mine + 1, theirs + 1)

    return meet(0, 0)


def _segments_meet(one: Segment, other: Segment) -> bool:
    if len(one) == 1:
        return segment_matches(other, one[0])
    if len(other) == 1:
        return segment_matches(one, other[0])
    starts, ends = (one[0], other[0]), (one[-1], other[-1])
    return any(map(str.startswith, starts, reversed(starts))) and any(map(str.endswith, ends, reversed(ends)))
