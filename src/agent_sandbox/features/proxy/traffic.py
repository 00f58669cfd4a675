"""Read an audit log line by line, in bounded memory."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agent_sandbox.problems import Problem, UserError

STDIN = Path("-")
# The proxy's own lines are far shorter.
LONGEST = 1 << 16
MOST_LINES = 2_000_000


def traffic_lines(file: Path) -> Iterator[str]:
    """Yield the lines of a log, `-` for standard input; lines longer than any audit record are left out."""
    if file == STDIN:
        yield from _lines(sys.stdin.buffer)
        return
    try:
        with file.open("rb") as log:
            yield from _lines(log)
    except OSError as error:
        hint = "name an audit log: JSON lines, as `agent-sandbox proxy logs --json` prints them"
        what = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise UserError([Problem(where=str(file), what=what, hint=hint)]) from error


def _lines(log: BinaryIO) -> Iterator[str]:
    for _ in range(MOST_LINES):
        line = log.readline(LONGEST + 1)
        if not line:
            return
        whole = line.endswith(b"\n") or len(line) <= LONGEST
        while not whole and (rest := log.readline(LONGEST)):
            whole = rest.endswith(b"\n")
        if len(line) <= LONGEST:
            yield line.decode("utf-8", "replace")
