"""Read a secret's value, typed without echo or piped in. Errors never show the value."""

import sys
from collections.abc import Callable, Iterator

import typer

from agent_sandbox.problems import Problem, UserError

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


def read_value(name: str) -> bytes:
    """Return the secret's value, or raise UserError with all problems."""
    value = _typed(name) if sys.stdin.isatty() else _piped()
    problems = [Problem(where=name, what=what, hint=hint) for what, hint in _faults(value)]
    if problems:
        raise UserError(problems)
    return value


def _faults(value: bytes) -> Iterator[tuple[str, str]]:
    if not value:
        yield "there is no value", "pipe it in, or run this at a terminal to be asked for it"
        return
    yield from ((what, hint) for test, what, hint in TABLE if test(value))


def _piped() -> bytes:
    """Return stdin without one trailing line end, which most programs print."""
    value = sys.stdin.buffer.read(MOST + len(b"\r\n") + 1)
    return value.removesuffix(b"\n").removesuffix(b"\r") if value.endswith(b"\n") else value


def _typed(name: str) -> bytes:
    try:
        value: str = typer.prompt(f"value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return value.encode(errors="surrogateescape")
