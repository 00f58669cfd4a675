"""Raise an error in a waiting task, from a callback or another task."""

import asyncio
from types import TracebackType
from typing import Any, Self

from agent_sandbox.proxy.exchange.denial import Denial


class ClientLeftError(Exception):
    """The client has closed its connection, or its half of it."""


class AbortedError(Exception):
    """An allowed request is now denied."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial.reason)
        self.denial = denial


class Interruptible:
    """A block that `interrupt` ends with an error, wherever it waits; by cancellation, like `asyncio.timeout`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._error: Exception | None = None

    def interrupt(self, error: Exception) -> None:
        """Raise `error` in the block, if it is running. Only the first error counts."""
        if self._task is not None and self._error is None:
            self._error = error
            self._task.cancel()

    def __enter__(self) -> Self:
        self._task, self._error = asyncio.current_task(), None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, error = self._task, self._error
        self._task = self._error = None
        if task is None or error is None:
            return
        is_ours = task.uncancel() == 0
        try:
            if is_ours or not isinstance(raised, asyncio.CancelledError):
                raise error from raised
        finally:
            # Tracebacks refer to frames that refer to the errors: what the block used would be kept until a garbage
            # collection.
            if isinstance(raised, asyncio.CancelledError):
                raised.__traceback__ = None
            del error, raised, trace
