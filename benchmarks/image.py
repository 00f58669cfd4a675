"""What is done in the proxy's image is measured there: Debian's Python is another one than a developer's may be."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.servers import LAB

sys.path.insert(0, str(LAB))

from engine import ROOT, engine_answers, proxy_image  # found just above

PYTHON = "/opt/agent-sandbox/venv/bin/python"


def measured_in_image(group: str) -> bool:
    """Have a group measured there, with the package that lies there; tell whether there is an engine for it."""
    if not engine_answers():
        return False
    mine = f"{os.getuid()}:{os.getgid()}"  # who may read the checkout
    command = (
        "docker", "run", "--rm", "--network", "none", "--user", mine, "--volume", f"{ROOT}:{ROOT}:ro",
        "--env", f"PYTHONPATH=/opt/agent-sandbox/package:{ROOT}",
        "--entrypoint", PYTHON, proxy_image(), "-P", "-m", "benchmarks", group,
    )  # fmt: skip
    subprocess.run(command, check=True)
    return True
