"""Every branch of each file of the policy and the proxy is covered by the test file of the same name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "agent_sandbox"
PLUGIN = """
import coverage, pytest
current = None

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    global current
    if item.path != current:  # it writes what was found so far, which takes milliseconds
        current = item.path
        coverage.Coverage.current().switch_context(item.path.name)
    return (yield)
"""


def missing_by_own_test(data_file: Path, module: Path) -> list[int]:
    """Return the lines of a module with code or branches that its own test did not reach."""
    measured = coverage.Coverage(data_file=data_file)
    measured.load()
    measured.get_data().set_query_contexts([f"^test_{module.stem.strip('_')}\\.py$", "^$"])
    analysis = measured._analyze(str(module))  # no public call gives branches by context
    return sorted(set(analysis.missing) | set(analysis.missing_branch_arcs()))


def test_each_file_of_policy_and_proxy_is_covered_by_its_own_test(tmp_path: Path) -> None:
    (tmp_path / "contexts.py").write_text(PLUGIN)
    data_file = tmp_path / "data"
    folders = [ROOT / "tests" / "unit" / name for name in ("policy", "proxy")]
    run = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "coverage",
            "run",
            f"--data-file={data_file}",
            "-m",
            "pytest",
            "-q",
            "-p",
            "contexts",
            "-m",
            "not slow",  # tests that run the same lines many times take ten times as long here
            *folders,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    modules = [path for name in ("policy", "proxy") for path in sorted((PACKAGE / name).rglob("*.py"))]
    missing = {str(path.relative_to(ROOT)): missing_by_own_test(data_file, path) for path in modules}
    assert {path: numbers for path, numbers in missing.items() if numbers} == {}
