"""Read a secret's value, typed without echo or piped in. Errors never show the value.

It is asked for once: the value exists already, and is almost always pasted. `secret test` shows whether it is right.
"""

import sys
from collections.abc import Iterator

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.sources.value import MOST, faults, without_line_end


def read_value(name: str) -> bytes:
    """Return the secret's value, or raise UserError with all problems."""
    value = _typed(name) if sys.stdin.isatty() else _piped()
    problems = [Problem(where=name, what=what, hint=hint) for what, hint in _faults(value)]
    if problems:
        raise UserError(problems)
    return value


def _faults(value: bytes) -> Iterator[tuple[str, str]]:
    if not value:
        yield "the value is empty", "pipe it in, or run this at a terminal, which asks for it"
        return
    yield from faults(value)


def _piped() -> bytes:
    """Return stdin without one trailing line end, which most programs print."""
    return without_line_end(sys.stdin.buffer.read(MOST + len(b"\r\n") + 1))


def _typed(name: str) -> bytes:
    import typer  # noqa: PLC0415 - a piped value needs no prompt, and other commands import this module

    try:
        value: str = typer.prompt(f"value of {name}", hide_input=True, err=True)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return value.encode(errors="surrogateescape")
