"""Tell that data contains none of many literals, in one or two passes over it.

Responses are searched for up to two hundred literals, and nearly all responses contain none. The regex engine in
pydantic looks for 64 literals at a time, ten times as fast as `bytes.find` does for one.
"""

from collections.abc import Callable, Iterable
from itertools import batched

# The engine switches to a search that is ten times slower for more.
MOST = 64
# Printable ASCII stays, and everything else becomes a byte that no literal has.
AS_ASCII = bytes(byte if byte < 0x80 else 0 for byte in range(256))

type Test = Callable[[str], bool]


class LiteralSet:
    """A set of literals, all ASCII. Data is searched for those that begin with a byte of `rare` only if it has one."""

    def __init__(self, literals: Iterable[bytes], *, rare: bytes = b"") -> None:
        ordered = sorted(set(literals))
        self._rare = [bytes([byte]) for byte in rare]
        self._tests = _tests(one for one in ordered if one[0] not in rare)
        self._rare_tests = _tests(one for one in ordered if one[0] in rare)

    def may_be_in(self, data: bytes) -> bool:
        """Return whether one of the literals is in the data."""
        try:
            text = data.decode("ascii")
        except UnicodeDecodeError:
            text = data.translate(AS_ASCII).decode("ascii")
        if any(test(text) for test in self._tests):
            return True
        return any(byte in data for byte in self._rare) and any(test(text) for test in self._rare_tests)


def _tests(literals: Iterable[bytes]) -> tuple[Test, ...]:
    return tuple(map(_test, batched(literals, MOST)))


def _test(literals: Iterable[bytes]) -> Test:
    from pydantic_core import SchemaValidator, core_schema  # noqa: PLC0415 - a proxy without secrets needs none

    pattern = "|".join("".join(f"\\x{byte:02x}" for byte in literal) for literal in literals)
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")).isinstance_python
