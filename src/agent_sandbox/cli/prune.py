"""`agent-sandbox prune`."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from agent_sandbox.backends.verbs import Destroy, Drop
from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, Quiet
from agent_sandbox.cli.framework.parameters import Option
from agent_sandbox.cli.steps.execute import backend, driver, execute
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.project.trust_store import open_store
from agent_sandbox.runtime.prunable import Prunable, find_prunable
from agent_sandbox.runtime.stack_list import without_directory
from agent_sandbox.size_text import size_text
from agent_sandbox.stack.engine import ENGINE

WIDEST = 60
Yes = Annotated[bool, Option(help="Do not ask.", short="-y")]
DryRun = Annotated[bool, Option(help="List what would be removed, without removing it.")]


def prune(*, yes: Yes = False, dry_run: DryRun = False, as_json: Json = False, quiet: Quiet = False) -> int:
    """Remove what no project uses: stacks whose directory is gone, images, and cached policies.

    Only what agent-sandbox made is listed and removed. A stack goes with its agents' state. Stacks that another user
    made, or that you never trusted, stay. An image that is needed again is built again.
    """
    found = find_prunable(driver(), open_store(os.environ), os.environ)
    if as_json and not (yes or dry_run):
        raise UserError([Problem(where="--json", what="cannot ask for confirmation", hint="add --dry-run or --yes")])
    if not (as_json or quiet):
        emit_lines(_as_text(found))
    agreed = found and not dry_run and (yes or _confirmed(found))
    kept = _remove(found, quiet=quiet or as_json) if agreed else ()
    if as_json:
        emit_json(_as_json(found, removed=bool(agreed), kept=kept))
    elif agreed and not quiet:
        say(f"removed, except images that a container uses: {', '.join(kept)}" if kept else "removed")
    if found and not (agreed or dry_run):
        say("nothing was removed")
        return FIXABLE
    return DONE


def _remove(found: Prunable, *, quiet: bool) -> tuple[str, ...]:
    """Remove all of it; return the images that are in use again."""
    for name in found.stacks:
        execute(backend().plan(without_directory(name), Destroy()), quiet=quiet)
    execute(backend().drop(Drop(images=tuple(found.images))), quiet=True)
    for path in found.cache:
        with suppress(OSError):  # another command may have removed or replaced it
            path.unlink()
    return tuple(driver().labels_of(tuple(found.images))) if found.images else ()


def _confirmed(found: Prunable) -> bool:
    if not sys.stdin.isatty():
        what = "cannot be confirmed without a terminal"
        raise UserError([Problem(where="prune", what=what, hint="agent-sandbox prune --yes, or --dry-run")])
    state = ", with the agents' state" if found.stacks else ""
    return agrees(f"Remove all of it{state}?")


def _as_text(found: Prunable) -> Iterator[str]:
    if not found:
        yield f"nothing to remove: all that agent-sandbox made on this {ENGINE} is in use"
        return
    cache = {_folder(found.cache): sum(found.cache.values())} if found.cache else {}
    parts: Mapping[str, Mapping[str, int | None]] = {
        "stacks whose directory is gone, with their volumes": found.stacks,
        "images that no project uses, without shared layers": found.images,
        "cached policies": cache,
    }
    for title, sizes in parts.items():
        yield from (f"{title}:",) if sizes else ()
        width = min(max(map(len, sizes), default=0), WIDEST)
        yield from (f"  {name:<{width}}  {_size(size)}" for name, size in sizes.items())
    yield f"in total, at least {size_text(found.total)}"


def _size(size: int | None) -> str:
    return "size unknown" if size is None else size_text(size)


def _folder(files: Mapping[Path, int]) -> str:
    return os.path.commonpath([path.parent for path in files])


def _as_json(found: Prunable, *, removed: bool, kept: tuple[str, ...]) -> dict[str, Any]:
    return {
        "stacks": [{"name": name, "size": size} for name, size in found.stacks.items()],
        "images": [{"name": name, "size": size} for name, size in found.images.items()],
        "cache": {"files": len(found.cache), "size": sum(found.cache.values())},
        "size": found.total,
        "removed": removed,
        "kept": list(kept),
    }
