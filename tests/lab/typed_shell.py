"""An interactive shell on a pseudo-terminal: type keys, wait for text."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SECONDS = 60


class TypedShell:
    """A running shell; `close` ends it."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        columns: int = 80,
        show: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Start it; `show` receives its output as it is printed."""
        self.show = show
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], [*argv], environment)  # noqa: S606 - it is the shell
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.seen = ""

    def type(self, keys: str, *, until: str) -> str:
        """Type these keys, and return what the shell prints up to `until`; raise TimeoutError if it never does."""
        return self.read(keys, until=re.compile(re.escape(until)))[0]

    def read(self, keys: str, *, until: re.Pattern[str], seconds: float = SECONDS) -> tuple[str, re.Match[str]]:
        """Type these keys; return what the shell prints until it matches, with the match."""
        os.write(self.descriptor, keys.encode())
        end, start = time.monotonic() + seconds, len(self.seen)
        while not (match := until.search(self.seen, start)):
            ready, _, _ = select.select([self.descriptor], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(self.seen[start:])
            text = os.read(self.descriptor, 4096).decode(errors="replace")
            self.seen += text
            self.show(text)
        return self.seen[start:], match

    def close(self) -> None:
        """End the shell."""
        os.close(self.descriptor)
        os.waitpid(self.pid, 0)
