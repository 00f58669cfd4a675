"""The terminal: whether one is attached, and what a command in the agent container learns about it."""

import os
import re
import sys
from collections.abc import Mapping

from agent_sandbox.stack.containers import OPEN_URL

# The type of the terminal, and whether it shows 24-bit colours.
PASSED_ON = ("TERM", "COLORTERM")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def at_terminal() -> bool:
    """Return whether both stdin and stdout are terminals: piped output must be the command's raw bytes."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def terminal_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that describe the terminal; values that are not plain names are left out."""
    return {name: value for name in PASSED_ON if NAME.fullmatch(value := environ.get(name, ""))}


def session_environment() -> dict[str, str]:
    """Return the variables for a command in the agent container, none if there is no terminal."""
    if not at_terminal():
        return {}
    return {**terminal_environment(os.environ), "BROWSER": OPEN_URL}
