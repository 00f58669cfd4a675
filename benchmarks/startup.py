"""How long a command takes, as a whole process, beside an interpreter that does nothing.

Both run from bytecode, as pip leaves it when it installs: a checkout may be used where none is written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Ratio, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROUNDS = 11
NOTHING = (sys.executable, "-P", "-c", "pass")
EXPLAIN = ("policy", "explain", "GET", "https://api.anthropic.com/")
# By the arguments: what it is called, its goal, and the directories that are removed before each run.
COMMANDS = (
    (("--version",), "`--version`", "10x", ()),
    (("--help",), "`--help`", "10x", ()),
    (("init", "claude"), "`init claude`, the first", "", ("project", "state")),
    (("init", "claude"), "`init claude`", "15x", ()),
    (EXPLAIN, "`policy explain`", "15x", ()),
    (EXPLAIN, "`policy explain`, the first after an edit", "200 ms", ("cache",)),
)


def seconds(argv: Sequence[str], cwd: Path, environ: Mapping[str, str] | None = None) -> float:
    """Return the wall time of one run."""
    start = time.perf_counter()
    subprocess.run(argv, cwd=cwd, check=True, capture_output=True, env=environ)
    return time.perf_counter() - start


def rows() -> list[Row]:
    """Measure every command in turn with the empty interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        return [_row(Path(folder), *command) for command in COMMANDS]


def _row(folder: Path, arguments: Sequence[str], figure: str, goal: str, removed: Sequence[str]) -> Row:
    argv = (str(Path(sys.executable).with_name("agent-sandbox")), *arguments)
    environ = environment(folder)

    def run(argv: Sequence[str]) -> float:
        (folder / "project").mkdir(exist_ok=True)
        return seconds(argv, folder / "project", environ)

    def run_without() -> float:
        for name in removed:
            shutil.rmtree(folder / name, ignore_errors=True)
        return run(argv)

    for warm in (argv, argv, NOTHING):
        run(warm)
    pairs = [(run_without(), run(NOTHING)) for _ in range(ROUNDS)]
    ours, other = ([1000 * pair[side] for pair in pairs] for side in (0, 1))
    return Row(figure=figure, unit="ms", ours=ours, other=other, beside="`python -c pass`", goal=goal, ratio=Ratio.COST)


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with a home of its own, in which bytecode is written."""
    theirs = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    homes = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "STATE")}
    return {**theirs, **homes, "HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
