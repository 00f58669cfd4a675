"""A second event loop in a thread, so that control tasks and traffic do not delay each other."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CLOSING_SECONDS = 2.0


class SideThread:
    """Runs the control socket, the file watch and the loading of policies in a thread next to the traffic loop."""

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
        """Run `work` in the side thread, for a caller in the traffic loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def in_traffic[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the traffic loop, for a caller in the side thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._traffic))

    def close(self, last: Callable[[], object]) -> None:
        """Call `last` in the thread, cancel its tasks, and end it."""
        for call in (last, self._stop.set):
            self._loop.call_soon_threadsafe(call)
        self._thread.join(CLOSING_SECONDS)
