"""The kinds of files that are reviewed, from the table of names."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path

import yaml

from agent_sandbox.resources import data_root

NEVER = "(?!)"
TABLE = data_root() / "templates" / "_shared" / "review.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of file, and what acts on it."""

    name: str
    why: str


EXECUTABLE = Kind(name="executable", why="may be executed by its name")
LINK = Kind(name="link", why="leads out of the project, to a directory, or to nothing")


@cache
def load_kinds(file: Path = TABLE) -> tuple[tuple[Kind, re.Pattern[str], re.Pattern[str]], ...]:
    """Return each kind with a pattern of case-folded names and one of paths, in the order of the table."""
    rows = yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    return tuple(
        (
            Kind(name=row["kind"], why=row["why"]),
            _pattern("(?:.*/)?", row.get("names", ())),
            _pattern("", row.get("paths", ())),
        )
        for row in rows
    )


def kind_of(path: str) -> Kind | None:
    """Return the kind of a file by its path in the project, or None."""
    folded = path.casefold()
    # The agent chooses how deep a path is. No name in the table has more than one directory.
    name = "/".join(folded.rsplit("/", 2)[-2:])
    return next((kind for kind, names, paths in load_kinds() if names.match(name) or paths.match(folded)), None)


def _pattern(before: str, patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"{before}{translate(one.casefold())}" for one in patterns) or NEVER)
