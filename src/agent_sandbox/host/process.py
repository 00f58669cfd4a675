"""Run a program: for its output, line by line, or in place of this process.

A captured child leads its own process group, so that one Ctrl-C reaches it exactly once, through us, together with
whatever it has started (the engine's command starts its plugins).
"""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import IO, NoReturn

from msgspec import Struct

from agent_sandbox.host.pipes import Pipes, TooLateError, TooMuchError
from agent_sandbox.problems import Problem, UserError

TAIL_LINES = 200  # enough for a failing build step; a chatty child can't fill the memory
TIMED_OUT = 124  # the exit code, as `timeout(1)` has it
TOO_MUCH = 125  # the exit code of a child that was ended because it printed too much
MOST_BYTES = 64 << 20  # of output, unless the caller expects less
LONGEST_LINE = 500
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 10.0  # seconds between asking a child to end and ending it


class Finished(Struct, frozen=True, kw_only=True):
    """The result of a program. `out` has only the last lines if it was followed."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str = ""

    @property
    def last_line(self) -> str:
        """The last line of its stderr, or else of its stdout: more lines from a sandbox could look like our own."""
        return (self.err.strip() or self.out.strip())[-LONGEST_LINE:].rpartition("\n")[2].strip()


def capture(  # noqa: PLR0913 - each is an option of its own
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    timeout: float = 60.0,
    stdin: bytes | IO[bytes] = b"",
    environment: Mapping[str, str] = MappingProxyType({}),
    errors: str = "replace",
    own_session: bool = False,
    most: int = MOST_BYTES,
    into: IO[bytes] | None = None,
) -> Finished:
    """Run `argv` without a terminal and return its output; the exit code is `TIMED_OUT` after a timeout.

    A child that prints more than `most` bytes is ended, with `TOO_MUCH`. With `into`, its stdout goes to that file. Its
    stdin is a pipe, so the input is never on disk, unless it is a file from the start. `errors` decodes what is not
    UTF-8: with "surrogateescape" a file name comes back as it is on the disk. With `own_session` it cannot open our
    terminal.
    """
    given = stdin if isinstance(stdin, bytes) else b""
    source = stdin if not isinstance(stdin, bytes) else subprocess.PIPE if stdin else subprocess.DEVNULL
    with _started(
        argv, cwd=cwd, stdin=source, stderr=subprocess.PIPE, environment=environment, own_session=own_session
    ) as child:
        try:
            out, err = Pipes(child, given, most=most, into=into).communicate(timeout)
        except OSError as error:
            if into is None:
                raise
            raise _unwritable(error) from error
        except TooLateError:
            _end(child)
            return Finished(argv=tuple(argv), code=TIMED_OUT, out="", err=f"no answer within {timeout:g} seconds")
        except TooMuchError:
            _end(child)
            return Finished(argv=tuple(argv), code=TOO_MUCH, out="", err=f"more than {most} bytes of output")
    return Finished(argv=tuple(argv), code=child.returncode, out=_text(out, errors), err=_text(err))


def follow(
    argv: Sequence[str],
    *,
    on_line: Callable[[str], None],
    cwd: Path | None = None,
    stdin: bytes = b"",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Finished:
    """Run `argv`, pass on each line of stdout and stderr as it comes, and keep the last ones."""
    with (
        _spooled(stdin) as source,
        _started(argv, cwd=cwd, stdin=source, stderr=subprocess.STDOUT, environment=environment) as child,
    ):
        return _read_lines(child, argv, on_line)


def watch(
    argv: Sequence[str],
    *,
    on_line: Callable[[str], None],
    on_start: Callable[["Input"], None] = lambda _: None,
    cwd: Path | None = None,
) -> Finished:
    """Run `argv` as `follow` does, with a stdin that stays open until this process ends, however it ends.

    `on_start` gets that stdin.
    """
    with _started(argv, cwd=cwd, stdin=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        on_start(Input(child))
        return _read_lines(child, argv, on_line)


@contextmanager
def piped(argv: Sequence[str], *, cwd: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` with a pipe for each of stdin, stdout and stderr, and end it if the block raises."""
    with _started(argv, cwd=cwd, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        yield child


def end(child: subprocess.Popen[bytes], *, within: float) -> None:
    """Wait for a child, and end it with all that it has started if it takes longer."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(within)
        return
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


class Input:
    """The stdin of a running program, for any thread."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._pipe = child.stdin

    def say(self, line: str) -> None:
        """Write a line. Raises OSError if the program has ended."""
        if self._pipe is None or self._pipe.closed:
            raise BrokenPipeError
        self._pipe.write(f"{line}\n".encode())
        self._pipe.flush()

    def close(self) -> None:
        """End the input."""
        if self._pipe is not None:
            with suppress(OSError):
                self._pipe.close()


def _read_lines(child: subprocess.Popen[bytes], argv: Sequence[str], on_line: Callable[[str], None]) -> Finished:
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    for line in child.stdout or ():  # bytes: only a line feed ends a line
        tail.append(_text(line).rstrip("\r\n"))
        on_line(tail[-1])
    return Finished(argv=tuple(argv), code=child.wait(), out="\n".join(tail))


def _text(said: bytes, errors: str = "replace") -> str:
    return said.decode("utf-8", errors)


def become(argv: Sequence[str], *, cwd: Path | None = None) -> NoReturn:
    """Replace this process with `argv`, which gets the terminal and signals and sets the exit code."""
    if cwd is not None:
        os.chdir(cwd)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(argv[0], tuple(argv))  # noqa: S606 - no shell is the point


def attend(
    argv: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] = MappingProxyType({})
) -> int:
    """Run `argv` on this terminal, wait for it and return its exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    return subprocess.run(argv, cwd=cwd, env={**os.environ, **environment}, check=False).returncode  # noqa: S603 - no shell


def leave_running(argv: Sequence[str], *, stdout: int = subprocess.DEVNULL) -> None:
    """Start `argv` without a terminal, and do not wait for it. `stdout` is a descriptor."""
    started = subprocess.Popen(  # noqa: S603 - no shell
        argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL, start_new_session=True
    )
    started.returncode = 0  # Python warns about a process that goes on


@contextmanager
def _spooled(content: bytes) -> Iterator[IO[bytes]]:
    import tempfile  # noqa: PLC0415 - few programs read anything

    # A file, not a pipe: a child that stops reading cannot block us.
    try:
        source = tempfile.TemporaryFile(prefix="agent-sandbox-")  # noqa: SIM115 - closed below
        source.write(content)
        source.seek(0)
    except OSError as error:
        raise _unwritable(error) from error
    with source:
        yield source


def _unwritable(error: OSError) -> UserError:
    what, hint = "cannot write a temporary file", "free some space, or set TMPDIR to a directory with space"
    return UserError([Problem(where="disk", what=f"{what}: {error.strerror}", hint=hint)])


@contextmanager
def _started(  # noqa: PLR0913 - as for `capture`
    argv: Sequence[str],
    *,
    cwd: Path | None,
    stdin: int | IO[bytes],
    stderr: int,
    environment: Mapping[str, str] = MappingProxyType({}),
    own_session: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a child process and end it if the block raises."""
    with _interruptible() as started:
        child = subprocess.Popen(  # noqa: S603 - argv is a tuple made by a backend, never a shell line
            tuple(argv),
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            # Both make it the leader of a process group.
            process_group=None if own_session else 0,
            start_new_session=own_session,
        )
        with child:
            try:
                started()
                yield child
            except BaseException:
                _end(child)
                raise


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into an exception, but only once `started` was called.

    An earlier signal would leave the child running, so it waits until there is a child to end.
    """
    waiting: list[str] = []
    ready = False

    def interrupt(number: int, _frame: FrameType | None) -> None:
        waiting.append(signal.Signals(number).name)
        if ready:
            raise KeyboardInterrupt(waiting[0])

    def started() -> None:
        nonlocal ready
        ready = True
        if waiting:
            raise KeyboardInterrupt(waiting[0])

    with handled(interrupt):
        yield started


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], object] | signal.Handlers, numbers: Sequence[signal.Signals] = ENDING
) -> Iterator[None]:
    """Handle the signals that ask this process to end, except those that are ignored, as `nohup` has it.

    Outside the main thread, do nothing: Python handles signals only there.
    """
    is_main = threading.current_thread() is threading.main_thread()
    heard = [number for number in numbers if is_main and signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer the signals that ask this process to end until the block ends."""
    waiting: list[int] = []
    with handled(lambda number, _: waiting.append(number)):
        yield
    for number in waiting[:1]:
        signal.raise_signal(number)


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if child.poll() is not None:
                break
            os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=GRACE)
    finally:  # also if a second Ctrl-C interrupts the wait
        # Background processes of the child do not receive Ctrl-C, and would outlive it.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=GRACE)
