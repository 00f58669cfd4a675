"""stdout is data, stderr is talk; a name from the project can steer no terminal."""

import json
import sys
from collections.abc import Iterable
from typing import Any

from agent_sandbox.problems import Problem

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    r"""Return the text with its control characters spelled out: an escape sequence in a path becomes `\x1b[...`."""
    return text.translate(CONTROLS)


def emit(text: str) -> None:
    """Print data."""
    sys.stdout.write(f"{printable(text)}\n")


def emit_json(value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Print data for a program: two-space JSON, keys in the order given."""
    sys.stdout.write(f"{json.dumps(value, indent=2, ensure_ascii=True)}\n")


def say(text: str) -> None:
    """Print talk."""
    sys.stderr.write(f"{printable(text)}\n")


def say_problems(problems: Iterable[Problem]) -> None:
    """Print each problem as `error: where: what`, and its hint on a line of its own."""
    for problem in problems:
        say(f"error: {problem.where}: {problem.what}" if problem.where else f"error: {problem.what}")
        if problem.hint:
            say(f"  hint: {problem.hint}")
