"""How long each test of a run took, by phase and worker: kept in a file, and compared between two runs.

`python tests/lab/durations.py BEFORE AFTER` prints the comparison.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

# One row a phase: the test, `setup`, `call` or `teardown`, the worker, its begin and its seconds.
type Row = tuple[str, str, str, float, float]
FILE = Path(__file__).resolve().parents[2] / "build" / "durations.json"
TOP = 30


class Durations:
    """A plugin of pytest that collects the durations of all workers and writes them to `file` at the end."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._began = time.time()
        self._rows: list[Row] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        worker = getattr(report, "worker_id", "main")
        self._rows.append((report.nodeid, report.when or "", worker, report.start - self._began, report.duration))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        wall = time.time() - self._began
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(json.dumps({"wall": wall, "rows": self._rows}))
        terminalreporter.section("durations")
        for line in (*slowest(self._rows), "", *workers(self._rows, wall), f"all of them: {self._file}"):
            terminalreporter.write_line(line)


def slowest(rows: Iterable[Row]) -> list[str]:
    """Return a line for each of the phases that took longest."""
    top = sorted(rows, key=lambda row: -row[4])[:TOP]
    return [f"{seconds:7.1f} s  {worker:<5} {phase:<8} {test}" for test, phase, worker, _, seconds in top]


def workers(rows: Iterable[Row], wall: float) -> list[str]:
    """Return a line for each worker: how long it ran tests, when it was done, and how long it was idle until then."""
    busy, last = defaultdict[str, float](float), defaultdict[str, float](float)
    for _, _, worker, start, seconds in rows:
        busy[worker] += seconds
        last[worker] = max(last[worker], start + seconds)
    return [
        f"{worker:<5} ran tests for {busy[worker]:.0f} s, was done after {last[worker]:.0f} s of {wall:.0f},"
        f" idle for {wall - busy[worker]:.0f} s"
        for worker in sorted(busy)
    ]


def by_file(rows: Iterable[Row]) -> Mapping[str, float]:
    """Return the seconds of each test file."""
    sums = defaultdict[str, float](float)
    for test, _, _, _, seconds in rows:
        sums[test.partition("::")[0]] += seconds
    return sums


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the comparison of two runs: the files whose time changed most, and the workers of each."""
    old, new = by_file(before["rows"]), by_file(after["rows"])
    changed = sorted({*old, *new}, key=lambda file: -abs(new.get(file, 0) - old.get(file, 0)))[:TOP]
    lines = [f"{old.get(file, 0):7.1f} s  {new.get(file, 0):7.1f} s  {file}" for file in changed]
    lines.append(f"{before['wall']:7.1f} s  {after['wall']:7.1f} s  whole run")
    for name, run in (("before", before), ("after", after)):
        lines += ["", name, *workers(run["rows"], run["wall"])]
    return lines


if __name__ == "__main__":
    print("\n".join(compared(*(json.loads(Path(path).read_bytes()) for path in sys.argv[1:3]))))
