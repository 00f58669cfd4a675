"""Path patterns: an exact path, a prefix, or a glob."""

from enum import StrEnum
from typing import override

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.errors import Ambiguous, InvalidValue
from agent_sandbox.policy.http.path import canonical_path, in_lower_case, readings
from agent_sandbox.policy.match.glob import Segment, glob_matches, split_glob
from agent_sandbox.policy.text import safe_repr

MAX_LENGTH = 1024
# As a range: the whole path.
WHOLE = (0, 2**31)


class PathKind(StrEnum):
    """The kind of a pattern, the most specific first."""

    EXACT = "exact"
    PREFIX = "prefix"
    GLOB = "glob"


class PathPattern(Struct, frozen=True, kw_only=True):
    """A set of paths, matched against one reading (`path.readings`) at a time."""

    kind: PathKind
    text: str
    reading: str
    # The start of every path below: `/v1/`, for `/v1` and for `/v1/`.
    below: str
    glob: tuple[Segment, ...] = ()
    # The range that is compared in lower case; the pattern itself is in lower case there.
    any_case: tuple[int, int] | None = None
    # Whether it is that of a deny: `broadly` made it.
    broad: bool = False

    def matches(self, reading: str) -> bool:
        """Return whether this reading of a path matches."""
        if self.any_case == WHOLE:
            reading = in_lower_case(reading)
        elif self.any_case:
            start, end = self.any_case
            reading = f"{reading[:start]}{reading[start:end].lower()}{reading[end:]}"
        return self.matches_served(reading)

    def matches_served(self, reading: str) -> bool:
        """Return whether a reading matches that is in the pattern's case, as those of `served_as` are for a deny's."""
        if self.kind is PathKind.EXACT:
            return reading == self.reading
        if self.kind is PathKind.PREFIX:
            return reading == self.reading or reading.startswith(self.below)
        return glob_matches(self.glob, reading)

    def in_any_case(self) -> "PathPattern":
        """Return the pattern that matches the same paths in any case."""
        reading, below = in_lower_case(self.reading), in_lower_case(self.below)
        glob = tuple(tuple(map(in_lower_case, segment)) for segment in self.glob)
        return replace(self, reading=reading, below=below, glob=glob, any_case=WHOLE)

    def broadly(self) -> "PathPattern":
        """Return the pattern of a deny: in any case, and with or without a slash at its end."""
        found = self.in_any_case()
        glob = found.glob[:-1] if len(found.glob) > 2 and found.glob[-1] == ("",) else found.glob
        return replace(found, reading=found.reading.rstrip("/") or "/", glob=glob, broad=True)

    @property
    def specificity(self) -> tuple[int, int]:
        """A sort key from the widest to the narrowest: exact above longer above shorter."""
        return (int(self.kind is PathKind.EXACT), len(self.reading))

    @override
    def __str__(self) -> str:
        return {
            PathKind.EXACT: self.text,
            PathKind.PREFIX: f"{self.text.removesuffix('/')}/...",
            PathKind.GLOB: self.text,
        }[self.kind]


def parse_path_pattern(kind: PathKind, text: str, *, any_case: tuple[int, int] | None = None) -> PathPattern:
    """Return the pattern, or raise InvalidValue. `any_case` is the range, without `%`, to match in any case, or WHOLE.

    >>> parse_path_pattern(PathKind.PREFIX, "/v1").matches("/v10")
    False
    """
    if len(text) > MAX_LENGTH:
        raise InvalidValue(f"a path with more than {MAX_LENGTH} characters")
    if any_case == WHOLE:
        return parse_path_pattern(kind, text).in_any_case()
    if any_case:
        start, end = any_case
        text = f"{text[:start]}{text[start:end].lower()}{text[end:]}"
    if "?" in text:
        raise InvalidValue(f"{safe_repr(text)} has a query", "conditions on the query go under `query`")
    if "*" in text and kind is not PathKind.GLOB:
        raise InvalidValue(
            f"a `*` is not a wildcard in {kind}: {safe_repr(text)}", "use `glob`, or write `%2A` for a literal `*`"
        )
    try:
        canonical = canonical_path(text)
    except Ambiguous as doubt:
        hint = "write the resolved path, starting with `/`"
        raise InvalidValue(f"{doubt}: {safe_repr(text)}", hint) from doubt
    reading, *others = readings(canonical)
    if others:
        raise InvalidValue(f"{safe_repr(text)} has a `;`", "servers differ on its meaning: leave the parameters out")
    glob = split_glob(canonical) if kind is PathKind.GLOB else ()
    below = f"{reading.removesuffix('/')}/"
    return PathPattern(kind=kind, text=canonical, reading=reading, below=below, glob=glob, any_case=any_case)
