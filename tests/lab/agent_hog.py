"""Exhaust one resource in a stack's agent container, with `resource_hog.py`."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from real_stacks import LAB, Project

BURNING = (LAB / "resource_hog.py").read_text()


@contextmanager
def burning(project: Project, what: str) -> Iterator[int]:
    """Have the agent take all of something, and hold it."""
    argv = ("docker", "compose", "exec", "-T", "agent", "python3", "-c", BURNING, what)
    with subprocess.Popen(argv, cwd=project.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.communicate()
