"""stdout is data, stderr is talk; a name from the project can steer no terminal."""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from agent_sandbox.printable import printable, printable_lines
from agent_sandbox.problems import Problem

# No column is wider: a rule that is longer moves what stands behind it on its own line alone.
WIDEST = 100


def emit(text: str) -> None:
    """Print data."""
    sys.stdout.write(f"{printable_lines(text)}\n")


def emit_json(value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Print data for a program: two-space JSON, keys in the order given."""
    sys.stdout.write(f"{json.dumps(value, indent=2, ensure_ascii=True)}\n")


def say(text: str) -> None:
    """Print talk."""
    sys.stderr.write(f"{printable_lines(text)}\n")


def say_problems(problems: Iterable[Problem], *, beside: Callable[[Problem], str] = lambda _: "") -> None:
    """Print each problem as `error: where: what`, what stands `beside` it, and its hint on a line of its own."""
    for problem in problems:
        # A path may hold a line end; what went wrong may be several lines of a program's.
        say(f"error: {printable(problem.where)}: {problem.what}" if problem.where else f"error: {problem.what}")
        if more := beside(problem):
            say(more)
        if problem.hint:
            say(f"  hint: {printable(problem.hint)}")
