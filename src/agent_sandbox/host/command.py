"""A command that runs a program in a stack, and the ways to run it. Only an engine makes one, and knows its words."""

import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, override

from msgspec import Struct

from agent_sandbox.host import attached, process
from agent_sandbox.host.process import MOST_BYTES, Finished, Input


class Command(Struct, frozen=True, kw_only=True):
    """A command of this machine that has not been started. `required` explains why it cannot be."""

    argv: tuple[str, ...]
    cwd: Path | None = None
    required: Callable[[], AbstractContextManager[None]] = nullcontext

    @override
    def __str__(self) -> str:
        """Return the line to type for it, as `--dry-run` prints it."""
        return shlex.join(self.argv)

    def capture(
        self,
        *,
        timeout: float = 60.0,
        stdin: bytes | IO[bytes] = b"",
        into: IO[bytes] | None = None,
        most: int = MOST_BYTES,
    ) -> Finished:
        """Run it, and return its output, at most that many bytes, and its exit code; see `process.capture`."""
        with self.required():
            return process.capture(self.argv, cwd=self.cwd, timeout=timeout, stdin=stdin, into=into, most=most)

    def watch(self, *, on_line: Callable[[str], None], on_start: Callable[[Input], None] = lambda _: None) -> Finished:
        """Run it, and pass on its lines. Its stdin, which `on_start` gets, stays open as long as this process."""
        with self.required():
            return process.watch(self.argv, cwd=self.cwd, on_line=on_line, on_start=on_start)

    def attach(self, *, pass_signal: "Command", on_output: Callable[[bytes], object] | None = None) -> int:
        """Run it on this terminal, and return its exit code. `pass_signal` and a signal's name pass that on."""
        with self.required():
            return attached.run_attached(self.argv, cwd=self.cwd, pass_signal=pass_signal.argv, on_output=on_output)

    @contextmanager
    def piped(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run it with a pipe for each of stdin, stdout and stderr, and end it if the block raises."""
        with self.required(), process.piped(self.argv, cwd=self.cwd) as child:
            yield child
