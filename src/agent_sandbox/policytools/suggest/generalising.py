"""Merge many paths into few patterns: a star replaces a segment only if paths differ in nothing else.

To learn from recorded requests, one value is enough for a star if it has the shape of a hash or a UUID.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

# Different values needed for a star: fewer if all of them contain a digit, as ids do.
IDS = 3
WORDS = 10
MOST_SEGMENTS = 32
MOST_STARS = 8
SEPARATORS = "-_.~"
# Hexadecimal, with a digit and of the length of an abbreviated commit to that of a SHA-512, or a UUID.
HASH = re.compile(r"(?=[a-f]*\d)[0-9a-f]{10,128}")
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)

type Segments = tuple[str, ...]


class Pattern(Struct, kw_only=True):
    """A path or a glob, the paths that it comes from, and the values of each star by segment."""

    segments: Segments
    paths: frozenset[str]
    values: dict[int, frozenset[str]] = {}

    @property
    def text(self) -> str:
        """The pattern as written in a rule."""
        return "/".join(self.segments)


def generalise(paths: Iterable[str], *, words: bool, shapes: bool = False) -> list[Pattern]:
    """Return patterns that match all paths. With `words`, values without digits can also become a star.

    With `shapes`, a single hash or UUID becomes one, too.

    >>> [found.text for found in generalise(["/a/1", "/a/2", "/a/3", "/b/1"], words=True)]
    ['/a/*', '/b/1']
    >>> [found.text for found in generalise(["/c/5d41402abc4b2a76/x"], words=True, shapes=True)]
    ['/c/*/x']
    """
    found = {pattern.segments: pattern for pattern in map(exactly, paths)}
    if shapes:
        found = {pattern.segments: pattern for pattern in _shaped(found.values())}
    # Twice: a star in one segment can make paths equal in all but another one.
    for place in (*range(1, MOST_SEGMENTS), *range(1, MOST_SEGMENTS)):
        found = {pattern.segments: pattern for pattern in _merged(found.values(), place, words=words)}
    return sorted(found.values(), key=lambda pattern: pattern.segments)


def exactly(path: str) -> Pattern:
    """Return the pattern that matches this path alone."""
    return Pattern(segments=tuple(path.split("/")), paths=frozenset({path}))


def _shaped(patterns: Iterable[Pattern]) -> Iterator[Pattern]:
    """Yield the patterns with a star for each segment that is a hash or a UUID; equal ones become one."""
    alike: defaultdict[Segments, list[Pattern]] = defaultdict(list)
    for pattern in patterns:
        places = [place for place in range(1, len(pattern.segments)) if is_shaped(pattern.segments[place])]
        fits = len(pattern.segments) <= MOST_SEGMENTS and pattern.text.count("*") + len(places) <= MOST_STARS
        starred = ("*" if fits and place in places else text for place, text in enumerate(pattern.segments))
        alike[tuple(starred)].append(pattern)
    for segments, group in alike.items():
        stars = [place for place, text in enumerate(segments) if text != group[0].segments[place]]
        yield Pattern(
            segments=segments,
            paths=frozenset().union(*(pattern.paths for pattern in group)),
            values={place: frozenset(pattern.segments[place] for pattern in group) for place in stars},
        )


def is_shaped(value: str) -> bool:
    """Return whether a value has the shape of a hash or a UUID."""
    return HASH.fullmatch(value) is not None or UUID.fullmatch(value) is not None


def _merged(patterns: Iterable[Pattern], place: int, *, words: bool) -> Iterator[Pattern]:
    """Yield the patterns, with those merged that differ only in this segment, if there are enough."""
    alike: defaultdict[Segments, list[Pattern]] = defaultdict(list)
    for pattern in patterns:
        if _may_differ(pattern, place):
            alike[*pattern.segments[:place], *pattern.segments[place + 1 :]].append(pattern)
        else:
            yield pattern
    for group in alike.values():
        if _is_enough({pattern.segments[place] for pattern in group}, words=words):
            yield _union(group, place)
        else:
            yield from group


def _may_differ(pattern: Pattern, place: int) -> bool:
    if not place < len(pattern.segments) <= MOST_SEGMENTS:
        return False
    value = pattern.segments[place]
    return value != "" and "*" not in value and pattern.text.count("*") < MOST_STARS


def _is_enough(values: Collection[str], *, words: bool) -> bool:
    ids = all(any(letter.isdigit() for letter in value) for value in values)
    return len(values) >= (IDS if ids else WORDS) and (ids or words)


def _union(group: Sequence[Pattern], place: int) -> Pattern:
    values = frozenset(pattern.segments[place] for pattern in group)
    segments = group[0].segments
    stars = {star for pattern in group for star in pattern.values}
    return Pattern(
        segments=(*segments[:place], _star(values), *segments[place + 1 :]),
        paths=frozenset().union(*(pattern.paths for pattern in group)),
        values={
            place: values,
            **{star: frozenset().union(*(pattern.values[star] for pattern in group)) for star in stars},
        },
    )


def _star(values: Collection[str]) -> str:
    """Return a star with the common start and end of the values, up to a separator: `issue-*`, `*.json`."""
    start, end = _shared(values), _shared([value[::-1] for value in values])[::-1]
    fits = all(len(value) > len(start) + len(end) for value in values)
    return f"{start}*{end}" if fits else "*"


def _shared(values: Collection[str]) -> str:
    """Return the common start of the values, up to its last separator."""
    letters = ""
    for column in zip(*values, strict=False):
        if len(set(column)) > 1:
            break
        letters += column[0]
    return letters[: max(letters.rfind(separator) for separator in SEPARATORS) + 1]
