"""Reload the policy files, for `proxy reload`, and whenever they have changed with `settings.reload: watch`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.policyfile.resolved import paths_beside
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.control.channel import Answer
from agent_sandbox.proxy.reload.policy_diff import change
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.transition import PolicyTransition

if TYPE_CHECKING:
    from agent_sandbox.proxy.reload.policy_diff import Change

COUNTED = (
    "policy reloaded: {added} rules added, {removed} removed, {others} other changes; "
    "{unreachable} hosts no longer reachable, {closed} connections closed"
)
# It polls because inotify does not work across the mounts of every engine, and keeps following a file that an
# editor has replaced.
EVERY_SECONDS = 1.0

type Taken = tuple[PolicyTransition, int]
type Identity = tuple[tuple[int, ...] | None, ...]


async def _here(work: Coroutine[Any, Any, Taken]) -> Taken:
    return await work


class Reloader:
    """Reads the policy, puts it in force, ends what it no longer allows, and reports the changes.

    It may run in the side thread; `in_traffic` runs the one step that must run in the traffic loop.
    """

    def __init__(
        self,
        store: PolicyStore,
        *,
        review: Callable[[PolicyTransition], Awaitable[int]],
        record: Callable[[AuditRecord], None],
        in_traffic: Callable[[Coroutine[Any, Any, Taken]], Awaitable[Taken]] = _here,
        publish: Callable[[Policy], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._review = review
        self._record = record
        self._in_traffic = in_traffic
        self._publish = publish
        # Of two concurrent reloads, the one that read the older file must not finish last.
        self._one_by_one = asyncio.Lock()

    async def reload(self) -> Answer:
        """Reload and return the result. An invalid file changes nothing."""
        async with self._one_by_one:
            policy = await self._store.read()
            if policy is None:
                self._record(
                    _line(Effect.DENY, f"policy not reloaded, the file has problems: {self._store.problems[0]}")
                )
                return {**self._outcome(), "ok": False, "valid": self._store.valid}
            revision, closed = await self._in_traffic(self._replace(policy))
            await asyncio.to_thread(self._publish, policy)
            changed = await asyncio.to_thread(_change, revision.old, revision.new)
            self._record(_line(Effect.ALLOW, COUNTED.format(**changed.counts, closed=closed)))
            return {**self._outcome(), "ok": True, "change": changed.summary(), "closed": closed}

    async def _replace(self, policy: Policy) -> Taken:
        old = self._store.current
        self._store.replace(policy)
        revision = PolicyTransition(old=old, new=self._store.current)
        # No await in between, so the new policy decides no request on a connection that is not reviewed yet.
        return revision, await self._review(revision)

    def _outcome(self) -> Answer:
        return {"digest": self._store.current.digest, "problems": [str(problem) for problem in self._store.problems]}


def _line(decision: Effect, reason: str) -> AuditRecord:
    return AuditRecord(event=Event.POLICY, decision=decision, reason=reason)


def _change(old: Policy, new: Policy) -> "Change":
    return change(old, new)


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
