"""The kinds of files that are reviewed, from the tables of names and of protected paths."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from agent_sandbox.host.agents import host_reads
from agent_sandbox.resources import data_root

NEVER = "(?!)"
ENDS = "*."  # how a pattern of a name's end begins
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


class Matcher(Struct, frozen=True, kw_only=True):
    """The case-folded names of one kind, those looked up as they are (`*.sh` too), other patterns, and its paths."""

    kind: Kind
    exact: frozenset[str]
    names: re.Pattern[str]
    paths: re.Pattern[str]


@cache
def load_kinds(file: Path = TABLE) -> tuple[Matcher, ...]:
    """Return what matches each kind, in the order of the table, whose rows of one kind stand together."""
    rows = [(row["kind"], row) for row in _yaml(file)]
    return (
        *(
            _matcher(name, [row for kind, row in rows if kind == name])
            for name in dict.fromkeys(kind for kind, _ in rows)
        ),
        Matcher(kind=HOST, exact=frozenset(), names=re.compile(NEVER), paths=_pattern("", _protected())),
    )


def _matcher(name: str, rows: Sequence[Mapping[str, Any]]) -> Matcher:
    names, paths = ([one.casefold() for row in rows for one in row.get(key, ())] for key in ("names", "paths"))
    return Matcher(
        kind=Kind(name=name, why=rows[0]["why"]),
        exact=frozenset(one for one in names if "*" not in one.removeprefix(ENDS)),
        names=_pattern("(?s:.*/)?", (translate(one) for one in names if "*" in one.removeprefix(ENDS))),
        paths=_pattern("", map(translate, paths)),
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
    *_, last = parts = folded.rsplit("/", 2)[-2:]
    name = "/".join(parts)
    spellings = {last, name, *(f"*{last[at:]}" for at, sign in enumerate(last) if sign == ".")}
    found = (one.kind for one in load_kinds() if not spellings.isdisjoint(one.exact) or _is_like(one, name, folded))
    return next(found, None)


def _is_like(one: Matcher, name: str, path: str) -> bool:
    return one.names.match(name) is not None or one.paths.match(path) is not None


def _pattern(before: str, patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"{before}{one}" for one in patterns) or NEVER)
