"""What importing something brings along."""

import subprocess
import sys


def brought_along(statement: str) -> set[str]:
    """Return the modules that a new Python has after this statement.

    What an installation loads at every start (-S) is not ours.
    """
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; {statement}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    return set(done.stdout.split())
