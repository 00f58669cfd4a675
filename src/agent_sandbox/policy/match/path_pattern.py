"""What a rule may say of paths: exactly one, all below one, or a glob."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import override

from agent_sandbox.policy.errors import Ambiguous, Unfit
from agent_sandbox.policy.http.path import canonical_path, in_lower_case, readings
from agent_sandbox.policy.match.glob import Segment, glob_matches, split_glob
from agent_sandbox.policy.text import safe_repr

MAX_LENGTH = 1024
# All of a path, however long.
WHOLE = (0, 2**31)


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
    # What whatever lies below starts with: `/v1/`, for `/v1` and for `/v1/`.
    below: str
    glob: tuple[Segment, ...] = ()
    # Where, from and to, letters count in lower case: the pattern holds them so already.
    any_case: tuple[int, int] | None = None

    def matches(self, reading: str) -> bool:
        """Tell whether the path, read so, is in the set."""
        if self.any_case == WHOLE:
            reading = in_lower_case(reading)
        elif self.any_case:
            start, end = self.any_case
            reading = f"{reading[:start]}{reading[start:end].lower()}{reading[end:]}"
        if self.kind is PathKind.EXACT:
            return reading == self.reading
        if self.kind is PathKind.PREFIX:
            return reading == self.reading or reading.startswith(self.below)
        return glob_matches(self.glob, reading)

    def in_any_case(self) -> "PathPattern":
        """Return the pattern that takes each of its paths in any case."""
        reading, below = in_lower_case(self.reading), in_lower_case(self.below)
        glob = tuple(tuple(map(in_lower_case, segment)) for segment in self.glob)
        return replace(self, reading=reading, below=below, glob=glob, any_case=WHOLE)

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


def parse_path_pattern(kind: PathKind, text: str, *, any_case: tuple[int, int] | None = None) -> PathPattern:
    """Return the pattern, or raise Unfit. `any_case` is a part without `%` that is matched in any case, or `WHOLE`.

    >>> parse_path_pattern(PathKind.PREFIX, "/v1").matches("/v10")
    False
    """
    if len(text) > MAX_LENGTH:
        raise Unfit(f"a path of a rule is at most {MAX_LENGTH} characters long")
    if any_case == WHOLE:
        return parse_path_pattern(kind, text).in_any_case()
    if any_case:
        start, end = any_case
        text = f"{text[:start]}{text[start:end].lower()}{text[end:]}"
    if "?" in text:
        raise Unfit(f"{safe_repr(text)} holds a query", "conditions on the query go under `query`")
    if "*" in text and kind is not PathKind.GLOB:
        raise Unfit(
            f"a `*` stands for itself in {kind}: {safe_repr(text)}", "write `glob`, or `%2A` for the sign itself"
        )
    try:
        canonical = canonical_path(text)
    except Ambiguous as doubt:
        hint = "write the path as it is when resolved, from its first `/`"
        raise Unfit(f"{doubt}: {safe_repr(text)}", hint) from doubt
    reading, *others = readings(canonical)
    if others:
        raise Unfit(f"{safe_repr(text)} holds a `;`", "servers differ on what it means: leave the parameters out")
    glob = split_glob(canonical) if kind is PathKind.GLOB else ()
    below = f"{reading.removesuffix('/')}/"
    return PathPattern(kind=kind, text=canonical, reading=reading, below=below, glob=glob, any_case=any_case)
