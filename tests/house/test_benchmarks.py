"""The benchmarks can be imported where they run: on the machine, or in the proxy image."""

import subprocess
import sys

import pytest

from engine import ROOT

# Packages of the product that the proxy image does not have.
NOT_IN_IMAGE = ("agents", "backends", "cli", "features", "policytools", "render", "runtime", "stack")
IMPORT = """
import sys
from importlib import import_module

hidden = sys.argv[1:]
sys.modules.update({f"agent_sandbox.{name}": None for name in hidden})
from benchmarks.__main__ import GROUPS

for group, is_in_image in GROUPS.items():
    if is_in_image or not hidden:
        import_module(f"benchmarks.{group}")
"""


@pytest.mark.parametrize("hidden", [(), NOT_IN_IMAGE], ids=["on the machine", "in the proxy image"])
def test_benchmarks_can_be_imported(hidden: tuple[str, ...]) -> None:
    command = (sys.executable, "-c", IMPORT, *hidden)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
