"""An interactive shell on a pseudo-terminal: type keys, wait for text."""

import os
import pty
import select
import time
from collections.abc import Sequence
from pathlib import Path

SECONDS = 20


class TypedShell:
    """A running shell; `close` ends it."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], [*argv], environment)  # noqa: S606 - it is the shell
        self.seen = ""

    def type(self, keys: str, *, until: str) -> str:
        """Type these keys, and return what the shell prints up to `until`; raise TimeoutError if it never does."""
        os.write(self.descriptor, keys.encode())
        end, start = time.monotonic() + SECONDS, len(self.seen)
        while until not in self.seen[start:]:
            ready, _, _ = select.select([self.descriptor], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(self.seen[start:])
            self.seen += os.read(self.descriptor, 4096).decode(errors="replace")
        return self.seen[start:]

    def close(self) -> None:
        """End the shell."""
        os.close(self.descriptor)
        os.waitpid(self.pid, 0)
