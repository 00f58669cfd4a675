"""An event loop in a thread of its own: what runs there waits for no traffic, and no traffic waits for it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CLOSING_SECONDS = 2.0


class BesideTraffic:
    """Runs the control socket, the watch and the reading of policies beside the loop that serves clients."""

    def __init__(self) -> None:
        self._traffic = asyncio.get_running_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), name="control", daemon=True)
        self._thread.start()
        self._started.wait()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._stop.wait()

    async def do[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` beside the traffic, for a caller on the loop of the traffic."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def in_traffic[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop of the traffic, for a caller beside it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._traffic))

    def close(self, last: Callable[[], object]) -> None:
        """Call `last` there, cancel what still runs, and end the thread."""
        for call in (last, self._stop.set):
            self._loop.call_soon_threadsafe(call)
        self._thread.join(CLOSING_SECONDS)
