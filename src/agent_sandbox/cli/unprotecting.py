"""Before `init` ends a protection: show which, and ask."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from agent_sandbox.cli.output import printable, say
from agent_sandbox.runtime.initialise import Prepared, Wish, prepare

KEPT = "protected so far, and nothing was found that names it now:"
LOST = "protected so far, and a link or a pipe now, which can't be protected:"


def settle(wish: Wish, prepared: Prepared) -> Prepared:
    """Return what `init` would do once a person has said which protections may end; without a terminal, none may.

    A search that did not get to the end says nothing about what it did not find.
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
    sys.stderr.write("May the agent write it from now on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
