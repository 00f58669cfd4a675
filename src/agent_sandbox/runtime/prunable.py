"""Find what can be removed: stacks without a directory, images without a project, and our cache."""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent_sandbox.images import base_name, usage_name
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.driver.container import StackFound
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.host.user_dirs import private_cache
from agent_sandbox.runtime.project.documents import FOLDER as DOCUMENTS
from agent_sandbox.runtime.project.installed import images_of, trusted_projects
from agent_sandbox.runtime.project.trust_store import Store
from agent_sandbox.runtime.stack_list import is_gone, orphans


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
    """Return the files of our cache; a link is one of them, and none is followed. An agent could have put it there.

    Cached stack files are left out: they are few and small, and this command has just used those of all projects.
    """
    folder, found = private_cache(environ), dict[Path, int]()
    if folder is None or folder.is_symlink():
        return found
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != DOCUMENTS]
        for path in (Path(root, name) for name in names):
            with suppress(FileNotFoundError):
                found[path] = path.lstat().st_size
    return found
