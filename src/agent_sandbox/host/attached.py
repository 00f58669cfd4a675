"""Run a program on this terminal until it ends, and pass on the signals that ask it to.

The program is a client of the engine: a signal would end only the client, and what it runs in a container would go on.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO

from agent_sandbox.host.process import TIMED_OUT

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
PATIENCE_SECONDS = 0.5
ENDED = 0  # not a signal: the client has ended
PASS_SECONDS = 15.0
ATTEMPTS = 3
GRACE = 2.0  # seconds; what it ran may just have ended
READ_SECONDS = 10.0  # after its end, for what it printed last
STDIN, STDOUT = 0, 1
# The engine's client says so when a signal has ended its plugin.
PLUGIN_ENDED = 255
CHUNK = 1 << 16


def run_attached(
    argv: Sequence[str],
    *,
    cwd: Path | None,
    pass_signal: Sequence[str],
    on_output: Callable[[bytes], object] | None = None,
) -> int:
    """Return the exit code of `argv`, 128 + n after signal n. `pass_signal` and a signal's name pass it on.

    `on_output` gets its stdout, part by part in another thread; without it, that is ours.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with _signals() as received:
        # Ctrl-C must not end it before the last output, but only the group of the terminal can read from the terminal.
        group = None if os.isatty(STDIN) else 0
        stdout = subprocess.PIPE if on_output else None
        client = subprocess.Popen(tuple(argv), cwd=cwd, process_group=group, stdout=stdout)  # noqa: S603 - no shell
        Thread(target=_wait, args=(client, received), daemon=True).start()
        with _read(client, on_output):
            return _code_of(client, received, cwd=cwd, pass_signal=pass_signal)


def _code_of(
    client: subprocess.Popen[bytes], received: SimpleQueue[int], *, cwd: Path | None, pass_signal: Sequence[str]
) -> int:
    """Pass signals on until the client ends; return its exit code."""
    passed: set[int] = set()
    while number := _next(received):
        passed.add(number)
        if not _passed_on((*pass_signal, _name(number)), cwd):
            return _ended(client, 128 + number)
    # A terminal that closes ends the client as well, perhaps before we have read our own signal.
    late = {*_waiting(received), *_ended_by(client)} - passed
    for number in late:
        _passed_on((*pass_signal, _name(number)), cwd)
    return 128 + min(late) if late else _exit_code(client.returncode)


def _next(received: SimpleQueue[int]) -> int:
    # Python handles a signal between two instructions: one that arrives just before a wait does not end it.
    while True:
        with suppress(Empty):
            return received.get(timeout=PATIENCE_SECONDS)


@contextmanager
def _read(client: subprocess.Popen[bytes], on_output: Callable[[bytes], object] | None) -> Iterator[None]:
    """Read the client's stdout until it ends; a process that it left behind may keep it open for ever."""
    if client.stdout is None or on_output is None:
        yield
        return
    reader = Thread(target=_pass_output, args=(client.stdout, on_output), daemon=True)
    reader.start()
    try:
        yield
    finally:
        reader.join(READ_SECONDS)


def _pass_output(stream: IO[bytes], on_output: Callable[[bytes], object]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # they must wake the main thread
    with stream:
        while data := os.read(stream.fileno(), CHUNK):
            on_output(data)


def _wait(client: subprocess.Popen[bytes], received: SimpleQueue[int]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # they must wake the main thread
    client.wait()
    received.put(ENDED)


@contextmanager
def _signals() -> Iterator[SimpleQueue[int]]:
    """Collect signals, except those that are ignored, as `nohup` has it."""
    received: SimpleQueue[int] = SimpleQueue()
    heard = [number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: received.put(number)) for number in heard}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _waiting(received: SimpleQueue[int]) -> Iterator[int]:
    with suppress(Empty):
        while True:
            yield received.get_nowait()


def _ended_by(client: subprocess.Popen[bytes]) -> Iterator[int]:
    """Yield the signal that ended the client, which did not pass it on."""
    if client.returncode < 0:
        yield -client.returncode
    elif client.returncode == PLUGIN_ENDED and _is_unread(STDOUT):
        yield signal.SIGPIPE


def _is_unread(pipe: int) -> bool:
    """Return whether the reader of a pipe has closed it, as `| head` does."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _name(number: int) -> str:
    """Return the name of the signal to pass on: SIGTERM for all that have no meaning of their own."""
    return signal.Signals(number if number in PASSED_ON else signal.SIGTERM).name.removeprefix("SIG")


def _passed_on(argv: Sequence[str], cwd: Path | None) -> bool:
    code = -1
    for _ in range(ATTEMPTS):
        code = _run(argv, cwd)
        if code >= 0:
            break
    return code == 0


def _run(argv: Sequence[str], cwd: Path | None) -> int:
    """Return the exit code, negative after a signal: one to our group may reach a child that is still in it."""
    none = subprocess.DEVNULL
    child = subprocess.Popen(argv, cwd=cwd, stdin=none, stdout=none, stderr=none, process_group=0)  # noqa: S603 - no shell
    try:
        return child.wait(timeout=PASS_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return TIMED_OUT


def _ended(client: subprocess.Popen[bytes], code: int) -> int:
    """Return the client's exit code, or end it and return `code` if the command can no longer be reached."""
    try:
        return _exit_code(client.wait(timeout=GRACE))
    except subprocess.TimeoutExpired:
        client.terminate()
        return code
