"""Those who watch: each gets the audit records as they come, and the open questions and grants after each change.

A watcher that reads slowly misses records, and is told how many. After each change, all open questions are sent before
the queued records, so a flood of records neither loses nor delays a question.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from agent_sandbox.proxy.control.channel import Answer, Reply

CAPACITY = 2_000  # records that wait for a slow watcher
AT_ONCE = 1_000  # records in one write
PAUSE_SECONDS = 0.1  # between two writes: each costs the proxy a switch to another thread
MOST = 16

State = Callable[[], Awaitable[Answer]]


class Watchers:
    """The connections that subscribed. `state` returns what is open now."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._all: tuple[_Watcher, ...] = ()

    @property
    def asking(self) -> bool:
        """Whether a watcher who can answer wants questions even without `settings.ask`."""
        return any(watcher.answers and watcher.asks for watcher in self._all)

    @property
    def answering(self) -> bool:
        """Whether somebody watches who can answer."""
        return any(watcher.answers for watcher in self._all)

    def add(self, line: bytes) -> None:
        """Pass on one audit record. Called from the traffic thread, for every record."""
        for watcher in self._all:
            watcher.add(line)

    def change(self) -> None:
        """Have the state sent again. Called from the traffic thread."""
        for watcher in self._all:
            watcher.change()

    async def serve(self, question: Mapping[str, object], reply: Reply) -> None:
        """Write to one watcher until it is cancelled."""
        if len(self._all) >= MOST:
            await reply(_line({"error": f"{MOST} others watch already"}))
            return
        watcher = _Watcher(answers=question.get("answers") is True, asks=question.get("asks") is True)
        self._all = (*self._all, watcher)
        self.change()
        try:
            while True:
                await watcher.news()
                parts = []
                if watcher.changed:
                    watcher.changed = False
                    parts.append(_line({"state": await self._state()}))
                await reply(b"".join([*parts, *watcher.take()]))
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._all = tuple(other for other in self._all if other is not watcher)


class _Watcher:
    def __init__(self, *, answers: bool, asks: bool) -> None:
        self.answers, self.asks = answers, asks
        self.changed = False
        self._lines: deque[bytes] = deque()
        self._dropped = 0
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._woken = False

    def add(self, line: bytes) -> None:
        if len(self._lines) >= CAPACITY:
            self._dropped += 1
        else:
            self._lines.append(line)
        self._call()

    def change(self) -> None:
        self.changed = True
        self._call()

    def _call(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._wake.set)

    async def news(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        self._woken = False

    def take(self) -> list[bytes]:
        count = min(len(self._lines), AT_ONCE)
        parts = [b'{"record": %s}\n' % self._lines.popleft().rstrip(b"\n") for _ in range(count)]
        if self._lines:
            self._call()
            return parts
        dropped, self._dropped = self._dropped, 0
        return [*parts, _line({"dropped": dropped})] if dropped else parts


def _line(value: Answer) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"
