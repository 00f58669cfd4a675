"""Find an encoded text in a stream: base64 that is broken into lines, and hex in any case."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import override

from agent_sandbox.proxy.secrets.search import SearchBudget

# The end of a line, as itself and in JSON, and what such an end may begin with at the end of the data.
LINE_END = re.compile(rb"(?:\r|\\r)?(?:\n|\\n)")
LINE_ENDS = tuple(cr + lf for cr in (b"", b"\r", b"\\r") for lf in (b"\n", b"\\n"))
BEGUN_OR_ENDED = frozenset(end[:size] for end in LINE_ENDS for size in range(len(end) + 1))
# Encoders break lines after 60 characters or more, so of two parts of this size at least one is whole.
PART = 16
LETTERS = 2  # of hex in a literal; there is one literal for each case
COMPARED = 256  # bytes compared at once
TOGETHER = 8  # bytes searched for at once at the end of data


class ExactFinder:
    """Finds exact bytes in one stream, including overlapping matches. It stores nothing between two reads."""

    def __init__(self, wanted: bytes, budget: SearchBudget | None = None) -> None:
        self._wanted = wanted
        self._budget = budget or SearchBudget()

    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes."""
        found, size = [], len(self._wanted)
        at = data.find(self._wanted, max(known - size + 1, 0))
        while at >= 0:
            self._budget.spend()
            found.append(slice(at, at + size))
            at = data.find(self._wanted, at + 1)
        return found

    def held(self, data: bytes) -> int:
        """Return the length of the longest proper prefix of the wanted bytes that `data` ends with."""
        end, most = data[-TOGETHER:], min(len(self._wanted) - 1, len(data))
        # Longer prefixes that can match end with the last bytes of the data; search for those.
        at = self._wanted.rfind(end, 0, most) if end else -1
        while at >= 0:
            self._budget.spend()
            if data.endswith(self._wanted[: at + len(end)]):
                return at + len(end)
            at = self._wanted.rfind(end, 0, at + len(end) - 1)
        shorter = range(min(len(end) - 1, most), 0, -1)
        return next((size for size in shorter if data.endswith(self._wanted[:size])), 0)

    def forget(self, size: int) -> None:
        """Do nothing: no positions are stored."""

    def begin(self, tail: bytes) -> None:
        """Do nothing: nothing is stored."""


@dataclass(frozen=True, slots=True)
class HexText:
    """A text in hex, whose letters may be of any case."""

    text: bytes = field(repr=False)

    def literals(self) -> Iterator[bytes]:
        """Yield the beginning in each case; each match contains one of them."""
        size = min(len(self.text), PART)
        while sum(sign.isalpha() for sign in self.text[:size].decode("ascii")) > LETTERS:
            size -= 1
        for cased in product(*({sign.lower(), sign.upper()} for sign in self.text[:size].decode("ascii"))):
            yield "".join(cased).encode("ascii")


class HexFinder(ExactFinder):
    """Finds a text in hex."""

    def __init__(self, wanted: HexText, budget: SearchBudget | None = None) -> None:
        super().__init__(wanted.text.lower(), budget)

    @override
    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes."""
        return super().read(data.lower(), known)

    @override
    def held(self, data: bytes) -> int:
        """Return how many bytes at the end may be the start of a match."""
        return super().held(data[-len(self._wanted) :].lower())


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text that may be broken into lines, such as base64 in MIME, in PEM and in the JSON of a forge.

    A match has at most one line end between two characters, and none in one of its first two parts.
    """

    text: bytes = field(repr=False)

    @property
    def parts(self) -> tuple[bytes, bytes]:
        """The first two parts, of the same size."""
        size = min(PART, len(self.text) // 2)
        return self.text[:size], self.text[size : 2 * size]

    def literals(self) -> Iterator[bytes]:
        """Yield literals of which each match contains one."""
        yield from self.parts


class FoldedFinder(ExactFinder):
    """Finds a text that may be broken into lines. The text itself has no line-end characters."""

    def __init__(self, wanted: FoldedText, budget: SearchBudget | None = None) -> None:
        super().__init__(wanted.text, budget)
        self._parts = wanted.parts
        self._start = re.compile(rb"%s(?=[%s\r\n\\]|\Z)" % (wanted.text[:1], wanted.text[1:2]))

    @override
    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes."""
        first, second = (ExactFinder(part, self._budget).read(data, 0) for part in self._parts)
        starts = {one.start for one in first}
        for one in second:
            starts |= self._backwards(data, one.start)
        ends = ((start, self._walk(data, start)[0]) for start in sorted(starts))
        return [slice(start, end) for start, end in ends if end > known]

    @override
    def held(self, data: bytes) -> int:
        """Return how many bytes at the end may be the start of a match."""
        tail = data[-len(self._wanted) * (1 + len(LINE_ENDS[-1])) :]
        if not (LINE_END.search(tail) or any(end and tail.endswith(end) for end in BEGUN_OR_ENDED)):
            return super().held(tail)
        starts = (found.start() for found in self._start.finditer(tail))
        return next((len(tail) - start for start in starts if self._walk(tail, start)[1]), 0)

    def _walk(self, data: bytes, start: int) -> tuple[int, bool]:
        """Return where the match that starts here ends, 0 if none does, and whether the data ends within it."""
        count, at, line = 0, start, start  # `line`: where the current line starts
        while True:
            self._budget.spend()
            size = min(COMPARED, len(self._wanted) - count)
            same = common_prefix(self._wanted[count : count + size], data[at : at + size])
            count, at = count + same, at + same
            if count == len(self._wanted):
                return (at if self._has_part(data, start, at, count) else 0), False
            if at == line:
                return 0, False
            if len(data) - at <= len(LINE_ENDS[-1]) and data[at:] in BEGUN_OR_ENDED:
                return 0, self._has_part(data, start, at, count)
            if same < size:
                end = LINE_END.match(data, at)
                if not end:
                    return 0, False
                at = line = end.end()

    def _has_part(self, data: bytes, start: int, at: int, count: int) -> bool:
        """Return whether a match with `count` characters has one of its first two parts in one line so far."""
        first, second = self._parts
        came = data[start : min(at, start + 2 * len(first) * (1 + len(LINE_ENDS[-1])))]
        return count < len(first) or first in came or second[: count - len(first)] in came

    def _backwards(self, data: bytes, end: int) -> set[int]:
        """Return where the first part may start whose last character is before `end`."""
        self._budget.spend(len(self._parts[0]))
        places = {end}
        for sign in reversed(self._parts[0]):
            places = {
                at - 1 for place in places for at in _before_line_end(data, place) if data[at - 1 : at] == bytes([sign])
            }
        return places


def _before_line_end(data: bytes, place: int) -> Iterator[int]:
    yield place
    yield from (place - len(end) for end in LINE_ENDS if data.endswith(end, 0, place))


def common_prefix(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix."""
    least, most = 0, min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
