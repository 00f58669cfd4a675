"""Whether a terminal is attached."""

import sys

from agent_sandbox.backends.verbs import Terminal


def terminal() -> Terminal:
    """Return ATTACHED if both stdin and stdout are terminals: piped output must be the command's raw bytes."""
    return Terminal.ATTACHED if sys.stdin.isatty() and sys.stdout.isatty() else Terminal.NONE
