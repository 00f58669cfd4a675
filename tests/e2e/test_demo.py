"""`make demo` shows the main job, with an engine and without one."""

from __future__ import annotations

import re
import sys

from engine import ROOT, run

DENIED = re.compile(r"example\.com.*policy\.yaml", re.DOTALL)


def test_with_an_engine_it_is_the_real_stack() -> None:
    shown = run(sys.executable, ROOT / "scripts" / "demo.py").stdout
    assert "this is the real stack" in shown
    assert "(Claude Code)" in shown
    assert '{"host": "api.anthropic.com"' in shown
    assert DENIED.search(shown)
    assert '{"host": "example.com"' in shown


def test_without_one_it_is_the_proxy_and_says_so() -> None:
    shown = run(sys.executable, ROOT / "scripts" / "demo.py", env={"DOCKER_HOST": "unix:///nonexistent.sock"}).stdout
    assert "No Docker engine answers" in shown
    assert '{"host": "api.anthropic.com"' in shown
    assert DENIED.search(shown)
    assert '{"host": "example.com"' in shown


def test_the_first_day_says_what_it_needs() -> None:
    without = {"DOCKER_HOST": "unix:///nonexistent.sock"}
    done = run(sys.executable, ROOT / "scripts" / "demo.py", "--day", env=without, check=False)
    said = "the first day needs Linux, root and a Docker engine, to set up a separate machine\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
