"""`settings.reload: watch`: check the policy's files every second, and reload when they have changed.

It polls because inotify does not work across the mounts of every engine, and keeps following a file that an
editor has replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from agent_sandbox.policy import Policy
from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.policyfile.resolved import paths_beside

EVERY_SECONDS = 1.0

type Identity = tuple[tuple[int, ...] | None, ...]


def identity(paths: Sequence[Path]) -> Identity:
    """Return a value that changes when one of the files is written, replaced, created or removed."""
    return tuple(map(_identity, paths))


def files_of(policy: Policy, path: Path, layers: Iterable[LayerFile]) -> tuple[Path, ...]:
    """Return all files of the policy at `path`: its layers, the resolved services next to it, and files it names."""
    every = (*layers, LayerFile(name=PROJECT, path=path))
    named = {layer.path.with_name(file) for layer in every for where, file in _named(policy) if where == layer.name}
    return (*(layer.path for layer in every), *paths_beside(path), *sorted(named))


def _named(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield (layer, file name) for each file that a layer names."""
    upstream = policy.settings.upstream
    if upstream is not None and upstream.ca is not None:
        yield upstream.layer, upstream.ca.file
    for index in (policy.index, *(restriction.index for restriction in policy.rules.restrictions)):
        for rule in chain.from_iterable(index.others):
            if isinstance(rule.conditions.host, ListedHosts):
                yield rule.origin.layer, rule.conditions.host.file


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


async def watch(
    look: Callable[[], Identity],
    reload: Callable[[], Awaitable[object]],
    *,
    wanted: Callable[[], bool],
    every: float = EVERY_SECONDS,
) -> None:
    """Reload when the files have changed and then stayed the same for one interval, while `wanted` returns true."""
    taken = before = look()
    while True:
        await asyncio.sleep(every)
        if not wanted():
            taken = before = look()
            continue
        seen = look()
        if before == seen != taken:
            taken = seen
            await reload()
        before = seen
