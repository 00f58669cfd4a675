"""Find an encoded text in a stream: base64 that is broken into lines, and hex in any case."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import override

# The end of a line, as itself and in JSON, and what such an end may begin with at the end of the data.
LINE_END = re.compile(rb"(?:\r|\\r)?(?:\n|\\n)")
LINE_ENDS = tuple(cr + lf for cr in (b"", b"\r", b"\\r") for lf in (b"\n", b"\\n"))
BEGUN_OR_ENDED = frozenset(end[:size] for end in LINE_ENDS for size in range(len(end) + 1))
NOTHING = frozenset({b""})
# Encoders break lines after 60 characters or more, so of two parts of this size at least one is whole.
PART = 16
LETTERS = 2  # of hex in a literal; there is one literal for each case


class ExactFinder:
    """Finds exact bytes in one stream, including overlapping matches. It stores nothing between two reads."""

    gave_up = False

    def __init__(self, wanted: bytes) -> None:
        self._wanted = wanted

    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes."""
        found, size = [], len(self._wanted)
        at = data.find(self._wanted, max(known - size + 1, 0))
        while at >= 0:
            found.append(slice(at, at + size))
            at = data.find(self._wanted, at + 1)
        return found

    def held(self, data: bytes) -> int:
        """Return the length of the longest proper prefix of the wanted bytes that `data` ends with."""
        if not data:
            return 0
        # Only prefixes that end with the last byte of the data can match; search for those.
        size = self._wanted.rfind(data[-1], 0, min(len(self._wanted) - 1, len(data))) + 1
        while size and not data.endswith(self._wanted[:size]):
            size = self._wanted.rfind(data[-1], 0, size - 1) + 1
        return size

    def forget(self, size: int) -> None:
        """Do nothing: no positions are stored."""

    def begin(self, _tail: bytes, _size: int) -> list[slice]:
        """Return nothing: nothing is stored."""
        return []


@dataclass(frozen=True, slots=True)
class HexText:
    """A text in hex, whose letters may be of any case."""

    text: bytes = field(repr=False)

    def literals(self) -> Iterator[bytes]:
        """Yield the beginning in each case; each match contains one of them."""
        size = len(self.text)
        while sum(sign.isalpha() for sign in self.text[:size].decode("ascii")) > LETTERS or size > PART:
            size -= 1
        for cased in product(*({sign.lower(), sign.upper()} for sign in self.text[:size].decode("ascii"))):
            yield "".join(cased).encode("ascii")


class HexFinder(ExactFinder):
    """Finds a text in hex."""

    def __init__(self, wanted: HexText) -> None:
        super().__init__(wanted.text.lower())

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
    """Finds a text that may be broken into lines."""

    def __init__(self, wanted: FoldedText) -> None:
        super().__init__(wanted.text)
        self._parts = wanted.parts

    @override
    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes."""
        first, second = (ExactFinder(part).read(data, 0) for part in self._parts)
        starts = {one.start for one in first}
        for one in second:
            starts |= self._backwards(data, one.start)
        ends = ((start, end) for start in sorted(starts) for end in self._walk(data, start)[0])
        return [slice(start, end) for start, end in ends if end > known]

    @override
    def held(self, data: bytes) -> int:
        """Return how many bytes at the end may be the start of a match."""
        tail = data[-len(self._wanted) * (1 + len(LINE_ENDS[-1])) :]
        if not (LINE_END.search(tail) or any(end and tail.endswith(end) for end in BEGUN_OR_ENDED)):
            return super().held(tail)
        start = tail.find(self._wanted[:1])
        while start >= 0:
            if self._walk(tail, start)[1]:
                return len(tail) - start
            start = tail.find(self._wanted[:1], start + 1)
        return 0

    def _walk(self, data: bytes, start: int) -> tuple[set[int], bool]:
        """Return where matches that start here end, and whether the data ends within one that may go on."""
        first, second = self._parts
        places, goes_on = {start}, False
        for count in range(len(self._wanted)):
            if not places:
                break
            sign, following = self._wanted[count : count + 1], set[int]()
            for place in places:
                for at in _after_line_end(data, place) if count else (place,):
                    if data[at : at + 1] == sign:
                        following.add(at + 1)
                if data[place:] in (BEGUN_OR_ENDED if count else NOTHING):
                    came = data[start:place]
                    goes_on |= count < len(first) or first in came or second[: count - len(first)] in came
            places = following
        return {end for end in places if first in data[start:end] or second in data[start:end]}, goes_on

    def _backwards(self, data: bytes, end: int) -> set[int]:
        """Return where the first part may start whose last character is before `end`."""
        places = {end}
        for sign in reversed(self._parts[0]):
            places = {
                at - 1 for place in places for at in _before_line_end(data, place) if data[at - 1 : at] == bytes([sign])
            }
        return places


def _after_line_end(data: bytes, place: int) -> Iterator[int]:
    yield place
    yield from (place + len(end) for end in LINE_ENDS if data.startswith(end, place))


def _before_line_end(data: bytes, place: int) -> Iterator[int]:
    yield place
    yield from (place - len(end) for end in LINE_ENDS if data.endswith(end, 0, place))
