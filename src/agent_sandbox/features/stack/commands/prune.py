"""`agent-sandbox prune`."""

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct
from typer import Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, Quiet
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.engines.container import StackFound
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.engines.verbs import Destroy, Drop
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.features.stack.stack_list import is_gone, orphans, without_directory
from agent_sandbox.host.user_dirs import private_cache
from agent_sandbox.images import base_name, usage_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import images_of, trusted_projects
from agent_sandbox.project.trust_store import Store, open_store
from agent_sandbox.size_text import size_text
from agent_sandbox.stack.engine import ENGINE

WIDEST = 60
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, Option(help="List what would be removed, without removing it.")]


class Prunable(Struct, frozen=True, kw_only=True):
    """Things that can be removed, with sizes in bytes; None if unknown."""

    stacks: Mapping[str, int | None]
    images: Mapping[str, int | None]
    # The files of our cache.
    cache: Mapping[Path, int]

    @property
    def total(self) -> int:
        """The sum of the known sizes: layers that several of the images share are not in it."""
        return sum(size or 0 for part in (self.stacks, self.images, self.cache) for size in part.values())

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.stacks or self.images or self.cache)


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
    return tuple(driver().images(found.images))


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


def find_prunable(driver: Driver, store: Store, environ: Mapping[str, str]) -> Prunable:
    """Return what can be removed. A trusted project whose drive is not mounted keeps its stack and images."""
    gone, needed = orphans(driver, store), _needed(store)
    images = driver.own_images(leaving=[container.id for stack in gone for container in stack.containers])
    return Prunable(
        stacks=_stacks(driver, gone),
        images={name: size for name, size in images.items() if name not in needed},
        cache=_cache(environ),
    )


def _needed(store: Store) -> Collection[str]:
    needed = set[str]()
    for project in trusted_projects(store).values():
        if not is_gone(project.root):
            needed.update(project.images)
            with suppress(UserError):  # made by another version: `up` builds its images
                needed.update(image.name for image in images_of(project))
    return needed and {*needed, base_name(), usage_name()}


def _stacks(driver: Driver, gone: Collection[StackFound]) -> dict[str, int | None]:
    disk = driver.usage(()).disk if gone else None
    return {stack.name: None if disk is None else sum(disk.get(name, 0) for name in stack.volumes) for stack in gone}


def _cache(environ: Mapping[str, str]) -> dict[Path, int]:
    """Return the files of our cache; a link is one of them, and none is followed. An agent could have put it there."""
    folder, found = private_cache(environ), dict[Path, int]()
    if folder is None or folder.is_symlink():
        return found
    for root, _, names in os.walk(folder):
        for path in (Path(root, name) for name in names):
            with suppress(FileNotFoundError):
                found[path] = path.lstat().st_size
    return found
