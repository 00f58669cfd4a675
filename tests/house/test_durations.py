"""`make durations`, which compares the durations of two runs."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_compares_the_files_and_the_workers_of_two_runs(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    slow = [("test_a.py::test_x", "setup", "gw0", 0.0, 4.0), ("test_a.py::test_x", "call", "gw0", 4.0, 1.0)]
    before.write_text(json.dumps({"wall": 10.0, "rows": slow}))
    after.write_text(json.dumps({"wall": 6.0, "rows": [*slow[1:], ("test_b.py::test_y", "call", "gw1", 1.0, 3.0)]}))
    command = ("make", "--silent", "durations", f"BEFORE={before}", f"AFTER={after}")
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.splitlines()) == (
        0,
        [
            "    5.0 s      1.0 s  test_a.py",
            "    0.0 s      3.0 s  test_b.py",
            "   10.0 s      6.0 s  whole run",
            "",
            "before",
            "gw0   ran tests for 5 s, was done after 5 s of 10, idle for 5 s",
            "",
            "after",
            "gw0   ran tests for 1 s, was done after 5 s of 6, idle for 5 s",
            "gw1   ran tests for 3 s, was done after 4 s of 6, idle for 3 s",
        ],
    )
