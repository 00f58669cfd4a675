"""The records of clones: which project a clone was made from, and the commits that it started with.

A clone is a project of its own, whose directory in the user's state holds only settings: its files are in a volume. All
of this is out of the agent's reach.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct

from agent_sandbox.bounded_json import read_json
from agent_sandbox.host.files import problem_of, write_all
from agent_sandbox.host.user_dirs import state_directory, state_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.root import find_root
from agent_sandbox.stack.naming import stack_name

FOLDER = "clones"
# A part of the names of directories, references and stacks.
NAME = re.compile("[a-z0-9](?:-?[a-z0-9])*", re.ASCII)
LONGEST = 30
DEFAULT = "clone"


class Clone(Struct, frozen=True, kw_only=True):
    """One clone of the project in `project`; `root` is the directory with its settings, `title` names its stack.

    `started` has the commits of its branches when it was made, by reference; it is empty until the volume has them.
    `policy` is the digest of the policy that it got from the project last. `cache` identifies the copy of the caches
    that it keeps for others, if it does.
    """

    project: Path
    name: str
    root: Path
    title: str
    started: Mapping[str, str] = {}
    policy: str = ""
    cache: str = ""

    @property
    def references(self) -> str:
        """Where its branches go in the project's repository, with a `/` at the end."""
        return f"refs/remotes/box/{self.name}/"


def require_name(name: str) -> None:
    """Raise UserError unless a clone can have this name."""
    if not (NAME.fullmatch(name) and len(name) <= LONGEST):
        hint = f"use up to {LONGEST} lower-case letters and digits, with a `-` between them, as in fix-1"
        raise UserError([Problem(where="--name", what=f"`{name}` cannot be the name of a clone", hint=hint)])


def clone_named(project: Path, name: str, environ: Mapping[str, str]) -> Clone | None:
    """Return the clone of a project with this name, or None."""
    return _read(_folder(project, environ) / f"{name}.json") if NAME.fullmatch(name) else None


def new_clone(
    project: Path, name: str, environ: Mapping[str, str], *, title: str, fetched: Container[str] = ()
) -> Clone:
    """Return a clone that is not recorded yet; without a name, it gets the next free one.

    `title` is the project's. `fetched` names clones whose branches the project has: they may be removed already.
    """
    folder = _folder(project, environ)
    taken = {one.name for one in clones_of(project, environ)}
    numbered = (f"{DEFAULT}-{number}" for number in count(1))
    free = next(one for one in numbered if one not in taken and one not in fetched)
    chosen = name or free
    return Clone(project=project.resolve(), name=chosen, root=folder / chosen, title=f"{title}-{chosen}")


def clones_of(project: Path, environ: Mapping[str, str]) -> tuple[Clone, ...]:
    """Return the clones of a project, sorted by name."""
    return tuple(_in(_folder(project, environ)))


def all_clones(environ: Mapping[str, str]) -> tuple[Clone, ...]:
    """Return every clone of this user."""
    folder = state_directory(environ).absolute() / FOLDER
    folders = sorted(folder.iterdir()) if folder.is_dir() else []
    return tuple(clone for one in folders for clone in _in(one))


def clone_at(root: Path, environ: Mapping[str, str]) -> Clone | None:
    """Return the clone whose directory this is, or None for a project on the host machine."""
    folder = state_directory(environ).resolve() / FOLDER
    place = root.resolve()
    return _read(place.with_name(f"{place.name}.json")) if place.parent.parent == folder else None


def path_option(root: Path, environ: Mapping[str, str], *, cwd: Path) -> str:
    """Return the ` --path` of a suggested command for this project or clone, or "" if it needs none in `cwd`."""
    if (here := find_root(None, cwd=cwd)) and here.resolve() == root.resolve():
        return ""
    clone = clone_at(root, environ)
    name = name_in(clone, cwd=cwd) if clone else ""
    # A file with this name would be used instead, and in a project, the agent can create one.
    return f" --path {name if name and not os.path.lexists(cwd / name) else shlex.quote(str(root))}"


def name_in(clone: Clone, *, cwd: Path) -> str:
    """Return the name by which commands in `cwd` find the clone: its own in its project, its stack's elsewhere."""
    here = find_root(None, cwd=cwd)
    in_project = here is not None and here.resolve() == clone.project
    return clone.name if in_project else stack_name(clone.title, str(clone.root))


def save_clone(clone: Clone) -> None:
    """Record a clone and create its directory."""
    said = {
        "project": str(clone.project),
        "title": clone.title,
        "started": dict(clone.started),
        "policy": clone.policy,
        "cache": clone.cache,
    }
    try:
        clone.root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        clone.root.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError([problem_of(str(clone.root), error)]) from error
    write_all(clone.root.parent, {f"{clone.name}.json": json.dumps(said)})


def forget_clone(clone: Clone) -> None:
    """Remove the record of a clone and its directory."""
    for kind in ("json", "lock"):
        clone.root.with_name(f"{clone.name}.{kind}").unlink(missing_ok=True)
    shutil.rmtree(clone.root, ignore_errors=True)
    with suppress(OSError):  # others are in it
        clone.root.parent.rmdir()


def _folder(project: Path, environ: Mapping[str, str]) -> Path:
    return state_directory(environ).resolve() / FOLDER / state_name(project.resolve())[:16]


def _in(folder: Path) -> Iterator[Clone]:
    for file in sorted(folder.glob("*.json")):
        if clone := _read(file):
            yield clone


def _read(file: Path) -> Clone | None:
    try:
        said = read_json(file.read_text(encoding="utf-8"))
        started = {str(name): str(commit) for name, commit in said["started"].items()}
        return Clone(
            project=Path(said["project"]),
            name=file.stem,
            root=file.with_suffix(""),
            title=str(said["title"]),
            started=started,
            policy=str(said.get("policy", "")),
            cache=str(said.get("cache", "")),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError([problem_of(str(file), error)]) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        hint = "remove the file, then the stack: agent-sandbox destroy --path NAME, with its name from agent-sandbox ls"
        raise UserError([Problem(where=str(file), what="the record of this clone is damaged", hint=hint)]) from error
