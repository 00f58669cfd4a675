"""Find paths that the host machine acts on and that have no mount, so that the agent can write them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from agent_sandbox.features.protect.mount_checks import has_two_names
from agent_sandbox.features.protect.protected import UNPRINTABLE, Candidates, candidates, candidates_outside, spelled
from agent_sandbox.host.git.repositories import WORKTREES
from agent_sandbox.host.git.worktree import Outside
from agent_sandbox.project.installed import read_facts
from agent_sandbox.stack.recorded import Access

MADE = "created after `init`, so the agent can write it"
LINK = "a symbolic link, which is not followed, so the agent can replace it"
TWO_NAMES = "the file has a second hard link: a write through it changes this file"


class Unprotected(Struct, frozen=True, kw_only=True):
    """A path that programs on the host machine act on and the agent can write."""

    path: str
    why: str
    because: str


class Gaps(Struct, frozen=True, kw_only=True):
    """The unprotected paths of a project, and the directories that were not searched."""

    unprotected: tuple[Unprotected, ...] = ()
    unsearched: tuple[str, ...] = ()


def look_over(root: Path) -> Gaps:
    """Return the paths that should be protected but are not in the stack file, and the unsearched directories."""
    facts = read_facts(root)
    if facts.in_volume:
        return Gaps()
    mounted = facts.protected
    parts = (("", candidates(root)), *_outside(mounted))
    return Gaps(
        unprotected=tuple(
            Unprotected(path=spelled(f"{base}{path}"), why=one.why, because=because)
            for base, part in parts
            for path, one in sorted({one.path: one for one in part.rows if one.access is Access.READ}.items())
            if os.path.exists(root / f"{base}{path}") or not one.always
            if (because := _because(root, base, path, mounted))
        ),
        unsearched=tuple(spelled(f"{base}{path}") for base, part in parts for path in part.unsearched),
    )


def mounted_outside(mounted: Iterable[str]) -> Outside | None:
    """Return the mounted repository of a worktree, as the paths that are mounted read-only show it.

    What is on the disk does not count: the agent can change it so that the repository would no longer be recognised.
    """
    places = sorted(PurePosixPath(path) for path in mounted if path.startswith("/"))
    for own in (place.parent for place in places if place.name == "commondir"):
        if own.parent.name == WORKTREES and own.parent.parent in places:
            return Outside(common=Path(own.parent.parent), name=own.name)
    return None


def _outside(mounted: frozenset[str]) -> Iterator[tuple[str, Candidates]]:
    """Yield what to protect in the repository of a worktree, if it is mounted, with the directory of the paths."""
    outside = mounted_outside(mounted)
    if outside is not None:
        yield from ((f"{part.root}/", part) for part in candidates_outside(outside))


def _because(root: Path, base: str, path: str, mounted: frozenset[str]) -> str:
    if not path.isprintable():
        return UNPRINTABLE
    whole = PurePosixPath(f"{base}{path}")
    steps = [str(whole), *(f"{base}{step}" for step in PurePosixPath(path).parents if step.parts)]
    if not mounted.intersection(steps):
        return LINK if any(os.path.islink(root / step) for step in steps) else MADE
    return TWO_NAMES if has_two_names(root, f"{base}{path}") else ""
