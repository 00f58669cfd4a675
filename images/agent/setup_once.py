#!/usr/bin/python3 -I
"""Run a project's setup script once in this container. Arguments: the script's path in the workspace, and options.

With `--digest SHA256`, no other content runs. With `--attended`, the script is ended at the end of stdin: the program
that waits for it is gone. Nothing runs if this content has already succeeded here; a failure is tried again. The exit
code is the script's, or 124 after the time limit.
"""

import argparse
import fcntl
import hashlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

WORKSPACE = os.environ.get("AGENT_SANDBOX_WORKSPACE", "/workspace")
# The digest of the script that has succeeded; it lasts as long as the container.
DONE = os.environ.get("AGENT_SANDBOX_SETUP_DONE", "/tmp/agent-sandbox.setup")
SECONDS = float(os.environ.get("AGENT_SANDBOX_SETUP_SECONDS", "1800"))
TIMED_OUT, INTERRUPTED, REFUSED, SIGNALLED = 124, 130, 78, 128
STOPPED = "interrupted"
GRACE = 5.0  # seconds between asking the script to end and ending it
MOST_LINES, LAST_LINES, LONGEST = 1000, 20, 1000
CHUNK = 1 << 16


def say(text: str) -> None:
    """Print a message."""
    print(f"agent-sandbox: {text}", flush=True)


def fail(text: str, code: int) -> int:
    """Print why the script has not succeeded, as the last line; return the exit code."""
    say(f"error: {text}")
    return code


class Output:
    """Prints lines up to a limit, and keeps the last ones."""

    def __init__(self) -> None:
        self.shown = 0
        self.last: deque[bytes] = deque(maxlen=LAST_LINES)
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Take what the script has printed."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        while len(self.rest) > LONGEST:
            self._line(self.rest[:LONGEST])
            self.rest = self.rest[LONGEST:]

    def end(self, *, failed: bool) -> None:
        """Print what is left, and after a failure the last lines if they were not shown."""
        if self.rest:
            self._line(self.rest)
            self.rest = b""
        if failed and self.shown > MOST_LINES:
            say("its last lines:")
            self._print(*self.last)

    def _line(self, line: bytes) -> None:
        line = line[:LONGEST]
        self.last.append(line)
        if self.shown < MOST_LINES:
            self._print(line)
        elif self.shown == MOST_LINES:
            say("further output is not shown")
        self.shown += 1

    def _print(self, *lines: bytes) -> None:
        # The reader may be gone. That ends the script only with `--attended`.
        with suppress(BrokenPipeError):
            sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
            sys.stdout.buffer.flush()


@contextmanager
def alone(script: str) -> Iterator[BinaryIO]:
    """Open the record of what has succeeded, for one program at a time."""
    with open(DONE, "a+b") as record:
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{script} is already running: waiting for it")
            fcntl.flock(record, fcntl.LOCK_EX)
        record.seek(0)
        yield record


def command(path: str, content: bytes) -> tuple[str, ...]:
    """Return how to run the script: by its first line if it is executable, else with bash."""
    return (path,) if content.startswith(b"#!") and os.access(path, os.X_OK) else ("bash", path)


def run(path: str, content: bytes, *, attended: bool) -> tuple[int, str]:
    """Run the script; return the exit code, and the reason if it was ended, or ""."""
    child = subprocess.Popen(  # noqa: S603 - the project's own script
        command(path, content),
        cwd=WORKSPACE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output, why = Output(), ""
    try:
        why = follow(child, output, attended=attended)
    finally:
        end(child)
    output.end(failed=bool(why or child.returncode))
    return child.returncode, why


def follow(child: subprocess.Popen[bytes], output: Output, *, attended: bool) -> str:
    """Pass on the output until the script ends; return why it has to be ended, or ""."""
    said = child.stdout or sys.stdin
    deadline = time.monotonic() + SECONDS
    os.set_blocking(said.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(said, selectors.EVENT_READ)
        if attended:
            selector.register(sys.stdin, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            # A process in the background may keep the pipe open, so its end is not the script's.
            ended = child.poll() is not None
            for key, _ in selector.select(0 if ended else 0.2):
                data = os.read(key.fd, CHUNK)
                if data and key.fileobj is said:
                    output.feed(data)
                elif not data:
                    selector.unregister(key.fileobj)
                    if key.fileobj is sys.stdin:
                        return STOPPED
            if ended:
                return ""
    return f"not finished after {SECONDS / 60:g} minutes"


def end(child: subprocess.Popen[bytes]) -> None:
    """End the script and what it has started in its process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=GRACE)


def once(script: str, record: BinaryIO, *, digest: str, attended: bool) -> int:
    """Run the script unless the record says that it has succeeded; return the exit code."""
    path = os.path.join(WORKSPACE, script)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        return fail(f"cannot be read: {error.strerror}", REFUSED)
    found = hashlib.sha256(content).hexdigest()
    if digest not in ("", found):
        return fail("changed after you trusted it", REFUSED)
    if record.read() == found.encode():
        return 0
    say(f"running {script}, once in this container")
    since = time.monotonic()
    code, why = run(path, content, attended=attended)
    if why:
        return fail(why, INTERRUPTED if why == STOPPED else TIMED_OUT)
    if code:
        words, number = ("failed with exit code", code) if code > 0 else ("ended by signal", -code)
        return fail(f"{words} {number}", code if code > 0 else SIGNALLED + number)
    record.truncate(0)
    record.write(found.encode())
    say(f"{script}: done in {time.monotonic() - since:.1f} s")
    return 0


def main(argv: list[str]) -> int:
    """Run the script, once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("--digest", default="")
    parser.add_argument("--attended", action="store_true")
    asked = parser.parse_args(argv)
    with alone(asked.script) as record:
        return once(asked.script, record, digest=asked.digest, attended=asked.attended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
