"""Lines leave the event loop by a thread, in batches, through a bounded queue.

A reader of stdout that stopped reading, or a full disk, must not stop the proxy, nor fill its memory.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable

BATCH_SECONDS = 0.02


class LineWriter:
    """Feeds `write` with what was added since the last batch. Counts what had to be dropped."""

    def __init__(self, write: Callable[[bytes], None], *, capacity: int = 20_000) -> None:
        self._write = write
        self._waiting: deque[bytes] = deque()
        self._capacity = capacity
        self._wake = threading.Event()
        self._closing = threading.Event()
        self.dropped = 0
        self.error = ""
        self._thread = threading.Thread(target=self._run, name="line writer", daemon=True)
        self._thread.start()

    def add(self, line: bytes) -> None:
        """Queue one line; the newest is dropped when nobody takes them."""
        if len(self._waiting) >= self._capacity:
            self.dropped += 1
            return
        self._waiting.append(line)
        if not self._wake.is_set():
            self._wake.set()

    def close(self, *, seconds: float = 2.0) -> None:
        """Write what is waiting, and stop."""
        self._closing.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._closing.wait(BATCH_SECONDS)
            self._wake.clear()
            self._flush()
        self._flush()  # what was added while the last batch was written, and nobody will wake for

    def _flush(self) -> None:
        batch: list[bytes] = []
        with contextlib.suppress(IndexError):
            while True:
                batch.append(self._waiting.popleft())
        if not batch:
            return
        try:
            self._write(b"".join(batch))
        except OSError as error:
            self.dropped += len(batch)
            self.error = str(error)
        else:
            self.error = ""
