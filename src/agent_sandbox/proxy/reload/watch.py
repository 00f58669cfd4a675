"""`settings.reload: watch`: look at the policy's files each second, and reload when they are others than before.

By asking, not by the kernel's notices: those do not cross the mounts of every engine, and follow a file that an editor
has already replaced.
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
    """Return what changes whenever one of the files is written, replaced, made or removed."""
    return tuple(map(_identity, paths))


def files_of(policy: Policy, path: Path, layers: Iterable[LayerFile]) -> tuple[Path, ...]:
    """Return what the policy at `path` is made of: its layers, the services beside it, and the files that it names."""
    every = (*layers, LayerFile(name=PROJECT, path=path))
    named = {layer.path.with_name(file) for layer in every for where, file in _named(policy) if where == layer.name}
    return (*(layer.path for layer in every), *paths_beside(path), *sorted(named))


def _named(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each file that a layer names beside itself, behind the name of the layer."""
    upstream = policy.settings.upstream
    if upstream is not None and upstream.ca is not None:
        yield upstream.layer, upstream.ca.file
    for index in (policy.index, *(ceiling.index for ceiling in policy.rules.ceilings)):
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
    """Reload, while it is `wanted`, once the files have changed and then stayed the same for a moment."""
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
