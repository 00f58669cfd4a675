"""The paths that a project file may name in the project."""

import re

LONGEST_PATH = 500
# Editors put variables of the host machine into `${...}`, and a `-` at the beginning would be an option.
SCRIPT = re.compile(r"(?!-)[A-Za-z0-9_.+@/-]+", re.ASCII)


def is_below(path: str) -> bool:
    """Return whether a path leads to something in the project, written without a way out.

    >>> is_below("scripts/setup.sh"), is_below("../x"), is_below("/x"), is_below("x/")
    (True, False, False, False)
    """
    return path.isprintable() and len(path) <= LONGEST_PATH and not {"", ".", ".."}.intersection(path.split("/"))


def is_script(path: str) -> bool:
    """Return whether the path may be a script's: plain words, and not in git's directory.

    >>> is_script("scripts/setup.sh"), is_script(".GIT/hooks/x"), is_script("${localEnv:TOKEN}")
    (True, False, False)
    """
    return is_below(path) and bool(SCRIPT.fullmatch(path)) and path.split("/", maxsplit=1)[0].casefold() != ".git"
