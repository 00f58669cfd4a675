"""Excerpts of files: the line of a problem with carets below the place, and unified diffs."""

import re
from collections.abc import Sequence

from agent_sandbox.cli.terminal.style import Styled, styled
from agent_sandbox.problems import Problem

PLACE = re.compile(r".*:(?P<line>[0-9]+):(?P<column>[0-9]+)", re.DOTALL)
WIDEST = 100
SIGNS = {"+": "allow", "-": "deny", "@": "title"}
QUOTED = r"\"[^\"]*\"|'[^']*'"
BRACKETS = r"\[[^\[\]{}]*\]|\{[^\[\]{}]*\}"
WORD = re.compile(rf"{QUOTED}|{BRACKETS}|(?:[^\s:]|:(?=\S))+")
IN_FLOW = re.compile(rf"{QUOTED}|{BRACKETS}|(?:[^\s:,\]}}]|:(?=[^\s,\]}}]))+")
OPEN = re.compile(r"[\[{][^\]}]*$")


def excerpt(problem: Problem, lines: Sequence[str]) -> str:
    r"""Return two lines to print below a problem, or an empty string if it has no place in the file.

    >>> print(excerpt(Problem(where="policy.yaml:2:1", what="unknown key 'domainz'"), ["version: 1", "domainz: []"]))
      2 | domainz: []
        | ^^^^^^^
    """
    found = PLACE.fullmatch(problem.where)
    if found is None or not 0 < int(found["line"]) <= len(lines):
        return ""
    number, column = found["line"], int(found["column"])
    # Far to the right, or after a tab, a caret would be below the wrong column.
    line = lines[int(number) - 1].rstrip()
    if column > WIDEST or "\t" in line:
        return f"  {number} | {line[:WIDEST]}"
    # In a list or mapping on one line, a comma ends a word; a colon does before a space.
    in_flow = bool(OPEN.search(line[: column - 1]))
    word = (IN_FLOW if in_flow else WORD).match(line, column - 1)
    carets = "^" * min(len(word[0]) if word else 1, WIDEST)
    return f"  {number} | {line[:WIDEST]}\n  {' ' * len(number)} | {' ' * (column - 1)}{carets}"


def diff_lines(diff: str) -> list[str]:
    r"""Return the lines of a unified diff, with colours and never wrapped.

    >>> diff_lines("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n")
    ['--- a', '+++ b', '@@ -1 +1 @@', '-x', '+y']
    """
    return [_diff_line(line) for line in diff.removesuffix("\n").split("\n")]


def _diff_line(line: str) -> Styled:
    style = "title" if line.startswith(("--- ", "+++ ")) else SIGNS.get(line[:1], "")
    return styled((line, style), fixed=True)
