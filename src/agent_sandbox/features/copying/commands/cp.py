"""`agent-sandbox cp SOURCE TARGET`."""

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import ProjectPath, Quiet
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.counted import counted
from agent_sandbox.engines.place import Role
from agent_sandbox.features.copying import transfer, tree
from agent_sandbox.features.copying.tree import Copied, Meter, Receiver, RefusedError
from agent_sandbox.features.protect.protected import load_table
from agent_sandbox.features.stack.execute import driver, require_agent
from agent_sandbox.features.trust.trust_gate import open_known
from agent_sandbox.host.agents import host_reads
from agent_sandbox.host.git.repositories import GIT
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import root_named
from agent_sandbox.project.root import find_root
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.size_text import size_text
from agent_sandbox.stack.limits import LIMITS
from agent_sandbox.stack.workspace import Protected

# The sandbox of this project, before the colon; no stack has this name, because each ends in a hash.
BOX = "box"
FORM = "write box:PATH for a path in the sandbox, as in agent-sandbox cp box:/tmp/report.html ."
SIZES = LIMITS["disk"]

Source = Annotated[str, Argument(help="What to copy: a path here, or box:PATH in the sandbox.")]
Target = Annotated[str, Argument(help="Where to: a path here, or box:PATH in the sandbox.")]
MaxSize = Annotated[str, Option(help="Stop after this many bytes, as in 500m or 20g.", metavar="SIZE")]
# The sandbox cannot write what the host machine acts on in the project, because it is protected. A copy of a directory
# would be the way around that, so such files are only copied by name.
# A directory with a HEAD can be a repository whatever its name. Windows calls `.git` also `git~1`.
OF_REPOSITORY = re.compile(rf"{re.escape(GIT)}|git~[0-9]+|head")
OF_GIT = "git on your machine would run its hooks and programs"
BY_NAME = "; look at it, then copy it by name"


def cp(
    source: Source, target: Target, *, path: ProjectPath = None, max_size: MaxSize = "2g", quiet: Quiet = False
) -> int:
    """Copy a file or directory between this machine and the sandbox, by the rules of `cp -r`.

    `box:PATH` is in the sandbox of this project, and relative to /workspace. `NAME:PATH` is in the sandbox of the stack
    with that name. Symbolic links are neither followed nor copied. Files that programs on this machine act on, such as
    `.git` and `.envrc`, are not copied here with a directory, only by name. Exits with 1 if something was left out.
    """
    name, inside = _inside(source, target)
    meter = Meter(most_bytes=_bytes(max_size), most_entries=transfer.MOST_ENTRIES)
    try:
        to_here = bool(_sandbox_of(source))
        copied = _here(name, inside, target, meter, path) if to_here else _there(name, inside, source, meter, path)
    except RefusedError as error:
        hint = "--max-size raises the limit; files that were already copied stay" if tree.STOPPED in error.what else ""
        what = " ".join(error.what.split())
        raise UserError([Problem(where=error.where or name, what=what, hint=hint)]) from error
    return _report(copied, target, quiet=quiet)


def _sandbox_of(text: str) -> str:
    """Return what is before the colon of a path in a sandbox, or an empty string for a path here.

    >>> _sandbox_of("box:/tmp/x"), _sandbox_of("./box:x"), _sandbox_of("C"), _sandbox_of(":x")
    ('box', '', '', '')
    """
    name, colon, _ = text.partition(":")
    return name if colon and "/" not in name else ""


def _inside(source: str, target: str) -> tuple[str, str]:
    """Return the sandbox and the path in it."""
    in_sandboxes = [text for text in (source, target) if _sandbox_of(text)]
    if len(in_sandboxes) != 1:
        what = "both paths are in a sandbox" if in_sandboxes else "neither path is in a sandbox"
        raise UserError([Problem(where=f"{source} {target}", what=what, hint=FORM)])
    name, _, inside = in_sandboxes[0].partition(":")
    if not inside:
        raise UserError([Problem(where=in_sandboxes[0], what="the path after the colon is missing", hint=FORM)])
    return name, inside


def _bytes(text: str) -> int:
    size: int | None = SIZES.read(text)
    if not size:
        raise UserError([Problem(where="--max-size", what=f"`{text}` is not a {SIZES.form}")])
    return size


def _here(name: str, inside: str, target: str, meter: Meter, path: Path | None) -> Copied:
    base = tree.base_of(inside)
    with tree.opened(target) as place:
        folder, named = (target, base) if os.path.isdir(target) else os.path.split(target.rstrip("/"))
        receiver = Receiver(place, base, meter, refusal_below(Path(folder), named))
        return transfer.from_sandbox(_running(name, path), inside, receiver)


def _there(name: str, inside: str, source: str, meter: Meter, path: Path | None) -> Copied:
    base = tree.base_of(source)
    with tree.opened(source) as place:
        tree.require_sendable(place)
        return transfer.to_sandbox(_running(name, path), place, inside, base, meter)


def _running(name: str, path: Path | None) -> transfer.Within:
    """Return how to run a program in the sandbox; raise UserError unless it runs."""
    if name != BOX and path is not None:
        raise UserError([Problem(where="--path", what=f"cannot be combined with {name}:", hint=FORM)])
    project = open_known(path if name == BOX else _root_of(name), cwd=Path.cwd())
    require_agent(project)
    return lambda argv: driver().spawn(Role(project=project, service="agent"), *argv, stdin=True)


def _root_of(name: str) -> Path:
    root = root_named(name, open_store(os.environ), cwd=Path.cwd())
    if root is None:
        hint = f"agent-sandbox ls lists the names; {BOX}: is the sandbox of this project; ./{name}: is a file here"
        what = "no trusted stack and no clone of this project has this name"
        raise UserError([Problem(where=name, what=what, hint=hint)])
    return root


def _report(copied: Copied, target: str, *, quiet: bool) -> int:
    for path, why in copied.skipped:
        say(("not copied:", "warn"), f" {path}: {why}")
    if copied.more:
        say(("not copied:", "warn"), f" {copied.more} more")
    if not quiet:
        say(f"copied {counted(copied.files, 'file')} ({size_text(copied.size)}) to {target}")
    return FIXABLE if copied.skipped else DONE


def refusal_below(folder: Path, name: str) -> Callable[[tuple[str, ...]], str]:
    """Return a function that says why an entry of a copy is not written, or nothing.

    The copy gets the name `name` in `folder`, which exists; with ".", only its content goes there. If a copy from above
    leaves `folder` out, or a directory that it is in, nothing is written there.
    """
    whole = Path(os.path.abspath(folder))  # noqa: PTH100 - as typed: no link in it is followed
    root = find_root(None, cwd=whole)
    top = root if root and whole.is_relative_to(root) else Path(whole.anchor)
    above = tuple(map(_plain, whole.relative_to(top).parts))
    before = (*above, *(() if name == "." else (_plain(name),)))
    table = (*load_table()["workspace"], *(Protected(path=row.path, why=row.why) for row in host_reads()))
    rows = [(row.path.casefold().split("/"), row.why, row.anywhere) for row in table]
    into = OF_GIT if _is_in_repository(whole, top, above) else ""
    into = into or next((why for pattern, why, _ in rows if _leads_into(above, pattern)), "")

    def refusal(parts: tuple[str, ...]) -> str:
        names = tuple(map(_plain, parts))
        if into or OF_REPOSITORY.fullmatch(names[-1]):
            return f"{into or OF_GIT}{BY_NAME}"
        way = (*before, *names)
        for pattern, why, anywhere in rows:
            start = len(way) - len(pattern)
            if start >= 0 and (anywhere or start <= len(before)) and _matches(way[start:], pattern):
                return f"{why}{BY_NAME}"
        return ""

    return refusal


def _is_in_repository(whole: Path, top: Path, above: tuple[str, ...]) -> bool:
    """Return whether a directory is git's own, in `.git` or in a bare repository."""
    places = [place for place in (whole, *whole.parents) if place.is_relative_to(top)]
    bare = any(os.path.isfile(place / "HEAD") and os.path.isdir(place / "objects") for place in places)
    return bare or any(OF_REPOSITORY.fullmatch(part) for part in above)


def _leads_into(above: tuple[str, ...], pattern: list[str]) -> bool:
    """Return whether a directory is what the pattern matches, or in it, seen from any directory above it."""
    return any(_matches(above[start : start + len(pattern)], pattern) for start in range(len(above)))


def _plain(name: str) -> str:
    """Return the name that a disk may take this one for: without case, invisible characters, and what Windows cuts."""
    return "".join(filter(str.isprintable, name)).casefold().partition(":")[0].rstrip(" .")


def _matches(names: tuple[str, ...], pattern: list[str]) -> bool:
    return len(names) == len(pattern) and all(map(fnmatchcase, names, pattern))
