"""What all searches for echoes share: a first look for literals, and a budget.

Responses are searched for up to two hundred literals, and nearly all responses contain none. The regex engine in
pydantic looks for 64 literals at a time, ten times as fast as `bytes.find` does for one.

A server chooses the data, and may choose it to keep the proxy busy. A step is a pass through a loop of the search in
Python. `re`, `bytes.find` and the like do the rest, in time linear in the data.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import batched

# The engine switches to a search that is ten times slower for more.
MOST = 64
# Printable ASCII stays, and everything else becomes a byte that no literal has.
AS_ASCII = bytes(byte if byte < 0x80 else 0 for byte in range(256))

# The steps allowed for a stream: in addition, for each byte, and for each of the first bytes of each piece, because the
# end of a piece is searched separately. Only a secret that repeats itself, or data made for it, needs more.
STEPS, STEPS_PER_BYTE = 10_000, 1 / 16
FIRST_BYTES, STEPS_PER_FIRST_BYTE = 20, 8

type Test = Callable[[str], bool]


class LiteralSet:
    """A set of literals, all ASCII."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        every = set(literals)
        # A literal that contains another one need not be searched for.
        ordered = sorted(one for one in every if not any(other in one for other in every - {one}))
        self._tests = [_test("|".join(map(exactly, some))) for some in batched(ordered, MOST)]

    def may_be_in(self, data: bytes) -> bool:
        """Return whether one of the literals is in the data."""
        try:
            text = data.decode("ascii")
        except UnicodeDecodeError:
            text = data.translate(AS_ASCII).decode("ascii")
        return any(test(text) for test in self._tests)


class Beginnings:
    """Tells which of some patterns may have begun to match at the end of data."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._any = _test(f"(?:{'|'.join(patterns)})\\z")
        self._each = [_test(f"(?:{pattern})\\z") for pattern in patterns]

    def at_end(self, data: bytes) -> list[int]:
        """Return the numbers of the patterns that may have begun to match at the end of the data."""
        text = data.translate(AS_ASCII).decode("ascii")
        return [number for number, test in enumerate(self._each) if test(text)] if self._any(text) else []


def begun(chars: Sequence[str]) -> str:
    """Return a pattern that matches the first one or more of the characters, which are patterns too.

    >>> begun("abc")
    '(?:a(?:b(?:c)?)?)'
    """
    first, *others = chars
    return f"(?:{first}{begun(others)}?)" if others else f"(?:{first})"


def char(byte: int) -> str:
    """Return a pattern that matches this byte."""
    return f"\\x{byte:02x}"


def exactly(literal: bytes) -> str:
    """Return a pattern that matches these bytes."""
    return "".join(map(char, literal))


def _test(pattern: str) -> Test:
    from pydantic_core import SchemaValidator, core_schema  # noqa: PLC0415 - a proxy without secrets needs none

    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")).isinstance_python


class TooCostlyError(Exception):
    """A search has used up its budget."""


class SearchBudget:
    """The steps that a search has left."""

    def __init__(self) -> None:
        self._left: float = STEPS

    def earn(self, size: int) -> None:
        """Add what a piece of data of this size may cost."""
        self._left += STEPS_PER_BYTE * size + STEPS_PER_FIRST_BYTE * min(size, FIRST_BYTES)

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises TooCostlyError if there were too many."""
        self._left -= steps
        if self._left <= 0:
            raise TooCostlyError
