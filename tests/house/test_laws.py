"""The laws: an ordinary run always tries the same examples, and a deep run prints how to repeat a failure."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]
FALSE = """\
from hypothesis import given, strategies as st

@given(st.integers())
def test_every_number_is_less_than_a_thousand(number):
    assert number < 1000
"""


def run_deep(file: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SEED": "7"}
    return subprocess.run(
        ["scripts/test-deep", file], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("profile", "same"), [("fast", True), ("fresh", False), ("deep", False)])
def test_only_the_default_profile_repeats_the_same_examples(profile: str, same: bool) -> None:  # noqa: FBT001
    assert settings.get_profile(profile).derandomize is same


def test_a_deep_run_shows_the_failing_test_case_and_how_to_repeat_it(tmp_path: Path) -> None:
    (tmp_path / "test_law.py").write_text(FALSE)
    run = run_deep(tmp_path / "test_law.py")
    assert run.returncode == 1
    assert "number=1000," in run.stdout
    assert run.stderr.splitlines() == [
        "a law does not hold: add each failing test case above to its test as an @example, then fix the cause",
        "SEED=7 make test-deep repeats this run",
    ]


def test_a_deep_run_reports_that_every_law_holds(tmp_path: Path) -> None:
    (tmp_path / "test_law.py").write_text(FALSE.replace("number < 1000", "number == number"))
    run = run_deep(tmp_path / "test_law.py")
    assert (run.returncode, run.stdout, run.stderr) == (0, "seed 7\nevery law holds\n", "")
