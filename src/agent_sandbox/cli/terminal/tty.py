"""Whether a person sits in front of us."""

import sys

from agent_sandbox.backends.verbs import Terminal


def terminal() -> Terminal:
    """Return whether both ends are a terminal: output into a pipe must be the command's own bytes."""
    return Terminal.ATTACHED if sys.stdin.isatty() and sys.stdout.isatty() else Terminal.NONE
