"""Write lines in a thread, in batches, from a bounded queue.

If stdout blocks or the disk is full, the proxy neither stops nor runs out of memory.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable

BATCH_SECONDS = 0.02


class LineWriter:
    """Passes queued lines to `write` in batches, and counts the lines that it drops."""

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
        """Queue one line; drop it if the queue is full."""
        if len(self._waiting) >= self._capacity:
            self.dropped += 1
            return
        self._waiting.append(line)
        if not self._wake.is_set():
            self._wake.set()

    def close(self, *, seconds: float = 2.0) -> None:
        """Write all queued lines and stop; give up after `seconds`."""
        self._closing.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            self._closing.wait(BATCH_SECONDS)
            self._wake.clear()
            self._flush()
        self._flush()  # lines added while the last batch was written

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
