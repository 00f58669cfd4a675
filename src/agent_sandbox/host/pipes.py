"""Exchange input and output with a child process, bounded in size and time."""

import os
import selectors
import subprocess
import time
from typing import IO

CHUNK = 1 << 16
# Bytes that a child whose output goes to a file may print to stderr.
MOST_MESSAGES = 1 << 20
# Seconds between two looks at whether the child has exited.
POLL = 0.05
# Seconds to read on after the child has exited: a background process of it may keep its output open for ever.
LINGER = 0.25


class TooMuchError(Exception):
    """The output is larger than allowed."""


class TooLateError(Exception):
    """The child did not exit in time."""


class Pipes:
    """The pipes to a child, which has one for stdout, one for stderr, and maybe one for stdin.

    With `into`, stdout is written to that file.
    """

    def __init__(
        self, child: subprocess.Popen[bytes], stdin: bytes, *, most: int, into: IO[bytes] | None = None
    ) -> None:
        self._child, self._unsent, self._most, self._into = child, memoryview(stdin), most, into
        self._printed: dict[int, bytearray] = {}
        self._stdout = child.stdout.fileno() if child.stdout else -1
        self._written = 0
        self._open = selectors.DefaultSelector()
        for pipe in (child.stdout, child.stderr):
            if pipe:
                self._printed[pipe.fileno()] = bytearray()
                self._open.register(pipe, selectors.EVENT_READ, pipe)
        if child.stdin:
            os.set_blocking(child.stdin.fileno(), False)
            self._open.register(child.stdin, selectors.EVENT_WRITE, child.stdin)

    def communicate(self, seconds: float) -> tuple[bytes, bytes]:
        """Return what the child prints until it exits. Raises TooLateError and TooMuchError."""
        if self._into:
            self._into.flush()
        deadline, exited = time.monotonic() + seconds, float("inf")
        with self._open:
            while self._open.get_map() and (now := time.monotonic()) < exited + LINGER:
                if now >= deadline:
                    raise TooLateError
                if exited > now and self._child.poll() is not None:
                    exited = now
                for key, _ in self._open.select(min(POLL, deadline - now)):
                    self._serve(key.data)
        try:
            self._child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TooLateError from error
        out, err = map(bytes, self._printed.values())
        return out, err

    def _serve(self, pipe: IO[bytes]) -> None:
        ended = self._write(pipe.fileno()) if pipe is self._child.stdin else self._read(pipe.fileno())
        if ended:
            self._open.unregister(pipe)
            pipe.close()

    def _write(self, pipe: int) -> bool:
        try:
            self._unsent = self._unsent[os.write(pipe, self._unsent[:CHUNK]) :]
        except BrokenPipeError:
            return True
        return not self._unsent

    def _read(self, pipe: int) -> bool:
        data = os.read(pipe, CHUNK)
        if self._into and pipe == self._stdout:
            _write_whole(self._into.fileno(), data[: self._most - self._written])
            self._written += len(data)
            if self._written > self._most:
                raise TooMuchError
            return not data
        self._printed[pipe] += data
        if len(self._printed[pipe]) > (min(self._most, MOST_MESSAGES) if self._into else self._most):
            raise TooMuchError
        return not data


def _write_whole(file: int, data: bytes) -> None:
    """Write all of it at once: what a full disk left in a buffer would fail again when the file is closed."""
    while data:
        data = data[os.write(file, data) :]
