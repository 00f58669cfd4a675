"""Before `init` ends a protection: show which, and ask."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.printable import printable
from agent_sandbox.runtime.init.initialise import Prepared, Wish, prepare

KEPT = "Protected so far; this search found nothing that refers to:"
LOST = "Protected so far; now a link or a pipe, which can't be protected:"


def settle(wish: Wish, prepared: Prepared) -> Prepared:
    """Ask which protections may end, and return what `init` does then; without a terminal none ends.

    After a search that stopped early nothing is asked: what it did not find may still matter.
    """
    asked = {LOST: prepared.protection.lost, KEPT: () if prepared.protection.unsearched else prepared.protection.kept}
    if not sys.stdin.isatty():
        return prepared
    let_go = frozenset(path for title, paths in asked.items() if paths and _yes(title, paths) for path in paths)
    return prepare(replace(wish, let_go=let_go), os.environ) if let_go else prepared


def _yes(title: str, paths: Sequence[str]) -> bool:
    say(title)
    for path in paths:
        say(f"  {printable(path)}")
    sys.stderr.write("Let the agent write this from now on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
