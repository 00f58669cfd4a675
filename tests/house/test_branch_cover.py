"""`--branches`, by which a whole run fails if the unit tests of a package leave out one of its branches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[1] / "lab"
CONFTEST = """
from pathlib import Path
import branch_cover

COVERED = {"tests/one/": "one", "tests/two/": "two"}

def pytest_configure(config):
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    folder = Path("build")
    measuring = branch_cover.Measuring(worker, COVERED, folder)
    config.pluginmanager.register(measuring if worker else branch_cover.Judging(COVERED, folder))
"""
MODULE = """
from functools import cache

def at_import():
    return 0

NUMBER = at_import()

@cache
def pick(flag):
    if flag:
        return 1
    return 2
"""


def run(folder: Path, *, workers: str = "2", **tests: str) -> tuple[int, list[str]]:
    """Run tests by package with some workers; return the exit code, and what is not covered."""
    (folder / "conftest.py").write_text(CONFTEST)
    for package in ("one", "two"):
        for made in (folder / package, folder / "tests" / package):
            made.mkdir(parents=True)
        (folder / package / "__init__.py").write_text(MODULE)
        (folder / "tests" / package / f"test_{package}.py").write_text(tests[package])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-n", workers, "--import-mode=importlib", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{LAB}:{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [line for line in done.stdout.splitlines() if " covers lines " in line]


BOTH = "import {0}\ndef test_{0}():\n    assert ({0}.pick(True), {0}.pick(False)) == (1, 2)\n"
HALF = BOTH.replace("({0}.pick(True), {0}.pick(False)) == (1, 2)", "{0}.pick(True) == 1")


def test_passes_if_the_tests_of_each_package_take_all_of_its_branches(tmp_path: Path) -> None:
    assert run(tmp_path, one=BOTH.format("one"), two=BOTH.format("two")) == (0, [])


def test_counts_what_another_test_has_already_put_in_a_cache(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(BOTH.format("one") + BOTH.format("two"))
    assert run(tmp_path, workers="1", one=BOTH.format("one"), two=BOTH.format("two")) == (0, [])


@pytest.mark.parametrize("more", ["", BOTH.format("two")])
def test_fails_if_a_branch_is_taken_by_the_tests_of_another_package_only(tmp_path: Path, more: str) -> None:
    assert run(tmp_path, one=BOTH.format("one") + more, two=HALF.format("two")) == (
        1,
        ["two/__init__.py: no test in tests/two/ covers lines 11, 13"],
    )
