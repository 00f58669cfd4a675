"""How long a command takes, as a whole process, beside an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Ratio, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS = 11
NOTHING = (sys.executable, "-c", "pass")


def seconds(argv: Sequence[str], cwd: Path) -> float:
    """Return the wall time of one run."""
    start = time.perf_counter()
    subprocess.run(argv, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - start


def rows() -> list[Row]:
    """Measure every command in turn with the empty interpreter."""
    sandbox = str(Path(sys.executable).with_name("agent-sandbox"))
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        commands = {
            "`--version`": ((sandbox, "--version"), "3x"),
            "`--help`": ((sandbox, "--help"), "3x"),
            "`init claude`": ((sandbox, "init", "claude"), "15x"),
            "`policy explain`": ((sandbox, "policy", "explain", "GET", "https://api.anthropic.com/"), "15x"),
        }
        found = []
        for name, (argv, goal) in commands.items():
            seconds(argv, project)
            pairs = [(seconds(argv, project), seconds(NOTHING, project)) for _ in range(ROUNDS)]
            ours, other = ([1000 * pair[side] for pair in pairs] for side in (0, 1))
            beside = "`python -c pass`"
            row = Row(figure=name, unit="ms", ours=ours, other=other, beside=beside, goal=goal, ratio=Ratio.COST)
            found.append(row)
        return found
