"""The value of a secret: typed without an echo, or piped in. Whatever is wrong with it is told without showing it."""

import sys
from collections.abc import Callable, Iterator

import typer

from agent_sandbox.problems import Problem, UserError

MOST = 64 << 10
# Shorter ones stand in answers by chance, and could not be taken out of them.
LEAST = 8
PRINTABLE = frozenset(range(0x20, 0x7F))
LINE_ENDS = frozenset(b"\r\n")

type Test = Callable[[bytes], object]
TABLE: tuple[tuple[Test, str, str], ...] = (
    (lambda value: len(value) > MOST, "it has more than 64 KiB", "a secret is one line, as it stands in a header"),
    (LINE_ENDS.intersection, "it has more than one line", "give the line alone that is the secret"),
    (
        lambda value: set(value) - PRINTABLE - LINE_ENDS,
        "it holds characters that are no printable ASCII",
        "a header takes no others; what is encoded (base64, hex) has to be given so",
    ),
    (
        lambda value: value != value.strip(b" "),
        "it begins or ends with a space",
        "a header ends before it; give the secret alone",
    ),
    (
        lambda value: len(value) < LEAST,
        f"it has under {LEAST} characters",
        "so short a one can't be told from other text in what a server answers; have a longer one made",
    ),
)


def read_value(name: str) -> bytes:
    """Return the value of that secret, or raise UserError with all that is wrong with it."""
    value = _typed(name) if sys.stdin.isatty() else _piped()
    problems = [Problem(where=name, what=what, hint=hint) for what, hint in _faults(value)]
    if problems:
        raise UserError(problems)
    return value


def _faults(value: bytes) -> Iterator[tuple[str, str]]:
    if not value:
        yield "there is no value", "pipe it in, or run this at a terminal, which asks for it"
        return
    yield from ((what, hint) for test, what, hint in TABLE if test(value))


def _piped() -> bytes:
    """Return what stdin holds without the one line end that most programs print behind it."""
    said = sys.stdin.buffer.read(MOST + len(b"\r\n") + 1)
    return said.removesuffix(b"\n").removesuffix(b"\r") if said.endswith(b"\n") else said


def _typed(name: str) -> bytes:
    try:
        said: str = typer.prompt(f"value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return said.encode(errors="surrogateescape")
