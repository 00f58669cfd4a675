"""`make demo` shows an allowed and a denied request, with and without a Docker engine."""

import re
import sys

from engine import ROOT, run

DENIED = re.compile(r"example\.com.*policy\.yaml", re.DOTALL)


def test_shows_the_real_stack_with_a_docker_engine() -> None:
    shown = run(sys.executable, ROOT / "scripts" / "demo.py").stdout
    assert "this is the real stack" in shown
    assert "(Claude Code)" in shown
    assert '{"host": "api.anthropic.com"' in shown
    assert DENIED.search(shown)
    assert '{"host": "example.com"' in shown


def test_reports_a_missing_docker_engine_and_still_shows_decisions() -> None:
    shown = run(sys.executable, ROOT / "scripts" / "demo.py", env={"DOCKER_HOST": "unix:///nonexistent.sock"}).stdout
    assert "No Docker engine answers" in shown
    assert '{"host": "api.anthropic.com"' in shown
    assert DENIED.search(shown)
    assert '{"host": "example.com"' in shown


def test_first_day_prints_its_requirements_without_a_docker_engine() -> None:
    without = {"DOCKER_HOST": "unix:///nonexistent.sock"}
    done = run(sys.executable, ROOT / "scripts" / "demo.py", "--day", env=without, check=False)
    said = "the first day needs Linux, root and a Docker engine, to set up a separate machine\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
