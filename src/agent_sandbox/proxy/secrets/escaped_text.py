"""Find a text in a stream, with any of its characters escaped, and wherever the stream is split.

`re` and `bytes.find` search for its first characters, escaped or not. Python code compares the rest only there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from agent_sandbox.proxy.secrets.encoded_text import common_prefix
from agent_sandbox.proxy.secrets.escapes import (
    LEADS,
    LONGEST,
    LONGEST_TWICE,
    beginnings,
    begins_twice,
    escaped_signs,
    escaped_twice,
    escapes,
    is_sign,
)
from agent_sandbox.proxy.secrets.search import SearchBudget

FIRST = 4  # characters of a text that are searched for
# Each match contains the first characters as themselves, or one of them escaped with up to so many before it.
PLAIN = 8
# Bytes of that escape sequence in a literal, by the number of characters before it, of which there are at most three.
SIZES = (6, 2, 2, 1)
LETTERS = 2  # in these bytes; there is a literal for each case

Partial = tuple[int, int, int]  # where a match starts, how many characters it has, where the next one is expected


@dataclass(frozen=True, slots=True)
class EscapedText:
    """A text of printable ASCII, and the patterns that its finders search for."""

    text: bytes = field(repr=False)
    # For each lead (first byte of an escape), a pattern for one of the first characters escaped and those before it
    # plain. A pattern is skipped if its lead is not in the data.
    patterns: tuple[tuple[bytes, re.Pattern[bytes]], ...] = field(init=False, repr=False, compare=False)
    # Any byte that a match may start with.
    start: re.Pattern[bytes] = field(init=False, repr=False, compare=False)
    # For each character, how many characters there are up to the next that could be a lead.
    plain: tuple[int, ...] = field(init=False, repr=False, compare=False)
    # How long the first characters may be, escaped.
    longest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(_patterns(self.text)))
        object.__setattr__(self, "start", re.compile(_start(self.text[:1])))
        object.__setattr__(self, "plain", _plain(self.text))
        longest = sum(LONGEST_TWICE if is_sign(char) else LONGEST for char in self.text[:FIRST])
        object.__setattr__(self, "longest", longest)

    def literals(self) -> Iterator[bytes]:
        """Yield literals of which each match contains at least one."""
        return _literals(self.text)


def _patterns(text: bytes) -> Iterator[tuple[bytes, re.Pattern[bytes]]]:
    for lead in sorted({escape[:1] for char in text[:FIRST] for escape in escapes(char)}):
        rests = [{escape[1:] for escape in escapes(char) if escape[:1] == lead} for char in text[:FIRST]]
        ways = (
            # Also match the plain characters before it and the start of the next one: false hits are slow.
            b"(?<=%s)(?=%s[; ]?%s)" % (re.escape(text[:index] + lead), _tree(rest), _start(text[index + 1 : index + 2]))
            for index, rest in enumerate(rests)
            if rest
        )
        again = {way[1:] for way, sign in escaped_signs().items() if way[:1] == lead and sign in LEADS}
        twice = (
            b"(?<=%s)(?=%s)" % (re.escape(text[:index] + lead), _tree(again))
            for index, char in enumerate(text[:FIRST])
            if is_sign(char) and again
        )
        rests.append(again if any(map(is_sign, text[:FIRST])) else set())
        seconds = sorted({_any_case(rest[:1]) for rest in set[bytes]().union(*rests)})
        yield lead, re.compile(b"%s(?=%s)(?:%s)" % (re.escape(lead), b"|".join(seconds), b"|".join((*ways, *twice))))


def _start(char: bytes) -> bytes:
    """Return a pattern of the bytes that a character may start with, escaped or not."""
    return b"[%s]" % re.escape(b"".join({char, *(escape[:1] for escape in escapes(char[0]))})) if char else b""


def _tree(words: set[bytes]) -> bytes:
    """Return a pattern that matches any of the words, ignoring case, as a tree that branches byte by byte."""
    if b"" in words:
        return b""
    branches = (
        _any_case(first) + _tree({word[1:] for word in words if word[:1] == first})
        for first in sorted({word[:1] for word in words})
    )
    return b"(?:%s)" % b"|".join(branches)


def _any_case(char: bytes) -> bytes:
    return b"[%s%s]" % (char, char.upper()) if char.isalpha() else re.escape(char)


def _plain(text: bytes) -> tuple[int, ...]:
    counts = [0]
    for char in reversed(text):
        counts.append(0 if char in LEADS else counts[-1] + 1)
    return tuple(reversed(counts))


def _literals(text: bytes) -> Iterator[bytes]:
    r"""Yield literals of which each match contains at least one, within the first `PLAIN` characters.

    >>> b"tok\\" in set(_literals(b"token")), b"%74" in set(_literals(b"token"))
    (True, True)
    """
    yield text[:PLAIN]
    for index, char in enumerate(text[:PLAIN]):
        before = text[:index][1 - len(SIZES) :]
        again = (way for way, sign in escaped_signs().items() if sign in LEADS and is_sign(char))
        for beginning in {_beginning(escape, SIZES[len(before)]) for escape in (*escapes(char), *again)}:
            for cased in product(*({sign.lower(), sign.upper()} for sign in beginning.decode("ascii"))):
                yield before + "".join(cased).encode("ascii")


def _beginning(escape: bytes, size: int) -> bytes:
    """Return the beginning of an escape sequence, shorter if it has many letters."""
    while sum(sign.isalpha() for sign in escape[:size].decode("ascii")) > LETTERS:
        size -= 1
    return escape[:size]


class TextFinder:
    """Finds one text in one stream."""

    def __init__(self, wanted: EscapedText, budget: SearchBudget | None = None) -> None:
        self._wanted = wanted
        self._budget = budget or SearchBudget()
        self._partials: list[Partial] = []  # matches that may continue in the next data

    def begin(self, tail: bytes) -> None:
        """Forget what was read; read the end of data that contains no match."""
        self._partials = []
        self.read(tail, 0)

    def read(self, data: bytes, known: int) -> list[slice]:
        """Return the matches that end after the first `known` bytes."""
        seen = {*self._partials, *self._starts(data, known)}
        found, partials, self._partials = [], list(seen), []
        while partials:
            self._budget.spend()
            start, count, at = partials.pop()
            if count == len(self._wanted.text):
                found.append(slice(start, at))
                continue
            following = {(start, *one) for one in self._following(data, count, at) if one[1] > known}
            partials += following - seen
            seen |= following
            if self._is_unfinished(data, count, at):
                self._partials.append((start, count, at))
        return found

    def held(self, data: bytes) -> int:
        """Return how many bytes at the end may be the start of a match."""
        return len(data) - min((start for start, _, _ in self._partials), default=len(data))

    def forget(self, size: int) -> None:
        """Shift all positions, because the first `size` bytes were passed on."""
        self._partials = [(start - size, count, at - size) for start, count, at in self._partials]

    def _starts(self, data: bytes, known: int) -> Iterator[Partial]:
        """Yield the matches that may start after the first `known` bytes."""
        spend = self._budget.spend
        text = self._wanted.text
        end = max(known, len(data) - self._wanted.longest)  # after it, the first characters may be incomplete
        at = data.find(text[:FIRST], known)
        while 0 <= at < end:
            spend()
            yield (at, 0, at)
            at = data.find(text[:FIRST], at + 1)
        there = (pattern for lead, pattern in self._wanted.patterns if data.find(lead, known) >= 0)
        for at in (match.start() for pattern in there for match in pattern.finditer(data, known)):
            spend()
            for count in range(min(FIRST, len(text))):
                if known <= at - count < end and data.startswith(text[:count], at - count):
                    yield (at - count, count, at)
        for match in self._wanted.start.finditer(data, end):
            yield (match.start(), 0, match.start())

    def _following(self, data: bytes, count: int, at: int) -> Iterator[tuple[int, int]]:
        """Yield each way to extend a match at `at` as (number of characters matched, position after them)."""
        text = self._wanted.text
        plain = self._wanted.plain[count]
        if same := common_prefix(text[count : count + plain], data[at : at + plain]):
            yield (count + same, at + same)
            return
        if data[at : at + 1] == text[count : count + 1]:
            yield (count + 1, at + 1)
        if data[at : at + 1] in LEADS:
            window, complete, begun = data[at : at + LONGEST].lower(), escapes(text[count]), beginnings(text[count])
            for size in range(1, len(window) + 1):
                if window[:size] in complete:
                    yield (count + 1, at + size)
                if window[:size] not in begun:
                    break
            if is_sign(text[count]):
                for end in escaped_twice(text[count], data[at : at + LONGEST_TWICE].lower()):
                    yield (count + 1, at + end)

    def _is_unfinished(self, data: bytes, count: int, at: int) -> bool:
        """Return whether the data ends within what may be the next character."""
        char = self._wanted.text[count]
        if len(data) - at < LONGEST and data[at:].lower() in beginnings(char):
            return True
        return is_sign(char) and len(data) - at < LONGEST_TWICE and begins_twice(char, data[at:].lower())
