"""Print data to stdout and messages to stderr, with control characters escaped."""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from agent_sandbox.printable import printable, printable_lines
from agent_sandbox.problems import Problem

# No column is wider; a longer rule shifts only its own line.
WIDEST = 100


def emit(text: str) -> None:
    """Print data."""
    sys.stdout.write(f"{printable_lines(text)}\n")


def emit_json(value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Print JSON, indented by two spaces, keys in the given order."""
    sys.stdout.write(f"{json.dumps(value, indent=2, ensure_ascii=True)}\n")


def say(text: str) -> None:
    """Print a message."""
    sys.stderr.write(f"{printable_lines(text)}\n")


def say_problems(problems: Iterable[Problem], *, beside: Callable[[Problem], str] = lambda _: "") -> None:
    """Print each problem as `error: where: what`, then the text that `beside` returns, then its hint."""
    for problem in problems:
        # A path may contain a line end; `what` may be several lines of a program's output.
        say(f"error: {printable(problem.where)}: {problem.what}" if problem.where else f"error: {problem.what}")
        if more := beside(problem):
            say(more)
        if problem.hint:
            say(f"  hint: {printable(problem.hint)}")
