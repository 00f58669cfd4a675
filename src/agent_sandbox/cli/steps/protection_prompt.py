"""Ask before `init` ends the protection of a path."""

import os
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.printable import printable
from agent_sandbox.runtime.init.initialise import InitOptions, Prepared, prepare

KEPT = "Protected so far, but this search found no reference to:"
LOST = "Protected so far, but now a link or a pipe, which cannot be protected:"


def settle(options: InitOptions, prepared: Prepared) -> Prepared:
    """Ask which protections may end, and return what `init` then does; without a terminal, none ends.

    After an incomplete search, paths that it did not find are kept without asking: they may still matter.
    """
    asked = {LOST: prepared.protection.lost, KEPT: () if prepared.protection.unsearched else prepared.protection.kept}
    if not sys.stdin.isatty():
        return prepared
    unprotect = frozenset(path for title, paths in asked.items() if paths and _yes(title, paths) for path in paths)
    return prepare(replace(options, unprotect=unprotect), os.environ) if unprotect else prepared


def _yes(title: str, paths: Sequence[str]) -> bool:
    from agent_sandbox.cli.terminal.question import agrees  # noqa: PLC0415 - rarely needed

    say(title)
    for path in paths:
        say(f"  {printable(path)}")
    return agrees("Let the agent write this from now on?")
