"""The kinds of files that are reviewed, from the tables of names and of protected paths."""

import re
from collections.abc import Iterable, Iterator
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from agent_sandbox.resources import data_root
from agent_sandbox.runtime.host.agents import host_reads

NEVER = "(?!)"
TABLE = data_root() / "templates" / "_shared" / "review.yaml"
# What exists at the start is protected from the agent. What it adds is not, until the next start.
PROTECTED = TABLE.with_name("protected.yaml")
# What trust is about.
OWN = frozenset((".devcontainer", ".env"))


class Kind(Struct, frozen=True, kw_only=True):
    """One kind of file, and what acts on it."""

    name: str
    why: str


HOST = Kind(name="host", why="is acted on by your machine unasked: by git, a shell, an editor or an agent outside")
EXECUTABLE = Kind(name="executable", why="may be executed by its name")
LINK = Kind(name="link", why="leads out of the project, to a directory, or to nothing")


@cache
def load_kinds(file: Path = TABLE) -> tuple[tuple[Kind, re.Pattern[str], re.Pattern[str]], ...]:
    """Return each kind with a pattern of case-folded names and one of paths, in the order of the table."""
    return (
        *(
            (
                Kind(name=row["kind"], why=row["why"]),
                _pattern("(?s:.*/)?", map(translate, map(str.casefold, row.get("names", ())))),
                _pattern("", map(translate, map(str.casefold, row.get("paths", ())))),
            )
            for row in _yaml(file)
        ),
        (HOST, re.compile(NEVER), _pattern("", _protected())),
    )


def _protected() -> Iterator[str]:
    """Yield a pattern for each protected path, and everything below it."""
    rows = [row["path"] for row in _yaml(PROTECTED)["workspace"]]
    for path in (*rows, *(row.path for row in host_reads())):
        if path not in OWN:
            yield re.escape(path.casefold()).replace(r"\*", "[^/]*") + r"(?s:/.*)?\Z"


def _yaml(file: Path) -> Any:  # noqa: ANN401 - one of our tables
    return yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe


def kind_of(path: str) -> Kind | None:
    """Return the kind of a file by its path in the project, or None."""
    folded = path.casefold()
    # The agent chooses how deep a path is. No name in the table has more than one directory.
    name = "/".join(folded.rsplit("/", 2)[-2:])
    return next((kind for kind, names, paths in load_kinds() if names.match(name) or paths.match(folded)), None)


def _pattern(before: str, patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"{before}{one}" for one in patterns) or NEVER)
