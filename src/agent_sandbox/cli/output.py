"""stdout is data, stderr is talk; a name from the project can steer no terminal."""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from agent_sandbox.problems import Problem

CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) != "\t"}
# They end a line, or make it read other than it is (CVE-2021-42574).
MARKS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
# No column is wider: a rule that is longer moves what stands behind it on its own line alone.
WIDEST = 100
SPELLED = CONTROLS | {code: f"\\u{code:04x}" for code in MARKS}


def printable(text: str) -> str:
    r"""Return one line with its control characters spelled out: an escape sequence in a path becomes `\x1b[...`."""
    return text.translate(SPELLED)


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def emit(text: str) -> None:
    """Print data."""
    sys.stdout.write(f"{_printable_lines(text)}\n")


def emit_json(value: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Print data for a program: two-space JSON, keys in the order given."""
    sys.stdout.write(f"{json.dumps(value, indent=2, ensure_ascii=True)}\n")


def say(text: str) -> None:
    """Print talk."""
    sys.stderr.write(f"{_printable_lines(text)}\n")


def say_problems(problems: Iterable[Problem], *, beside: Callable[[Problem], str] = lambda _: "") -> None:
    """Print each problem as `error: where: what`, what stands `beside` it, and its hint on a line of its own."""
    for problem in problems:
        # A path may hold a line end; what went wrong may be several lines of a program's.
        say(f"error: {printable(problem.where)}: {problem.what}" if problem.where else f"error: {problem.what}")
        if more := beside(problem):
            say(more)
        if problem.hint:
            say(f"  hint: {printable(problem.hint)}")
