"""What the value of a secret must be. Problems never show the value."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MOST = 64 << 10
# Shorter values occur in responses by chance, so echoes of them could not be redacted.
LEAST = 8
PRINTABLE = frozenset(range(0x20, 0x7F))
LINE_ENDS = frozenset(b"\r\n")

type Test = Callable[[bytes], object]
TABLE: tuple[tuple[Test, str, str], ...] = (
    (lambda value: len(value) > MOST, "it is longer than 64 KiB", "a secret is one line, as in a header"),
    (LINE_ENDS.intersection, "it has more than one line", "give only the line with the secret"),
    (
        lambda value: set(value) - PRINTABLE - LINE_ENDS,
        "it contains characters that are not printable ASCII",
        "a header cannot carry others; give encoded secrets (base64, hex) in their encoded form",
    ),
    (
        lambda value: value != value.strip(b" "),
        "it begins or ends with a space",
        "a header value cannot; give only the secret",
    ),
    (
        lambda value: len(value) < LEAST,
        f"it has fewer than {LEAST} characters",
        "echoes of a short secret cannot be told from other text in responses; create a longer one",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The value that a source gives. Its `repr` does not contain the value."""

    value: bytes = field(repr=False)
    # The seconds until it expires, if the source says so.
    left: float | None = None


def faults(value: bytes) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a value that is not empty, and how to fix it."""
    yield from ((what, hint) for test, what, hint in TABLE if test(value))


def without_line_end(value: bytes) -> bytes:
    """Return the value without one line end, which most programs print after it."""
    return value.removesuffix(b"\n").removesuffix(b"\r") if value.endswith(b"\n") else value
