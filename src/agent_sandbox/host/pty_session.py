"""Run a program on this terminal through a pseudo-terminal, and show an overlay over it at times.

While the overlay is shown, the program's output is not read: it waits, and the screen underneath does not change.
"""

import os
import pty
import re
import select
import selectors
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

CHUNK = 65_536
FAILED = 127
# No overlay appears while the user types: the next key would answer it.
TYPING_SECONDS = 1.5
# A key counts after that long without any: earlier ones were meant for the program, or are pieces of what the terminal
# answers when the program asks it something.
SETTLE_SECONDS = 0.7
# What a program writes in one go can come in several pieces; nothing is put between them.
QUIET_SECONDS, LONGEST_SECONDS = 0.05, 1.0
TICK_SECONDS = 1.0
RESIZED_SECONDS = 0.3  # until a program has noticed a change of the size, through the engine
# Ends an escape sequence or a string that the program has not: the terminal would take the overlay for a part of it.
CANCEL = b"\x18\x1b\\"
# Ends what would hide a part of the overlay: held updates, margins, inserting, other character sets, protected cells.
PLAIN = b'\x1b[?2026l\x1b[?6l\x1b[?69l\x1b[r\x1b[4l\x1b(B\x0f\x1b[0"q'
# Colours that a program cannot redefine, unlike the default ones and the palette. For a terminal that does not know
# them, the numbers of the background turn off bold, underline and concealment.
COLOURS = b"\x1b[0;38;2;230;230;230;48;2;22;24;28m"
BOLD, NOT_BOLD = b"\x1b[1m", b"\x1b[22m"
# Modes set and reset, and those of the alternate screen of full-screen programs, which has no second one.
MODES = re.compile(rb"\x1b\[\?(?P<modes>[0-9;]*+)(?P<on>[hl])")
ALTERNATE = {b"1049", b"1047", b"47"}
# A key as the keyboard protocol of kitty reports it: its number, and perhaps "no modifier, pressed".
KITTY_KEY = re.compile(rb"\x1b\[(?P<key>[0-9]{1,3})(?:;1(?::1)?)?u")


class Overlay(Protocol):
    """What is shown over the program."""

    def lines(self, columns: int) -> Sequence[str]:
        """Return the lines to show, without styles and none longer than the terminal is wide. The first is the title.

        Nothing means that the program is to be seen.
        """

    def signal(self) -> bytes:
        """Return the bytes that alert the user through the terminal, once for each new thing to show."""

    def press(self, key: str) -> None:
        """Act on a key."""


class PtySession:
    """One program on this terminal. `wake` may be called from another thread after the overlay has changed.

    `passed` returns what the terminal gets of a part of the program's output. `typed` returns what the program gets of
    what the user types; it is also called with nothing, for what it has held back.
    """

    def __init__(
        self,
        overlay: Overlay,
        *,
        passed: Callable[[bytes], bytes] = bytes,
        typed: Callable[[bytes], bytes] = bytes,
        source: int = 0,
        target: int = 1,
    ) -> None:
        self._overlay, self._output_filter, self._input_filter = overlay, passed, typed
        self._source, self._target = source, target
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._child, self._leader = 0, -1
        self._to_program = b""
        self._alternate, self._tail = False, b""
        self._shown: list[str] = []
        self._typed = self._written = self._wanted = self._settling = 0.0
        self._smaller_since = 0.0
        self._status: int | None = None
        self._gone = False

    def wake(self) -> None:
        """Look at the overlay again."""
        with suppress(OSError):
            os.write(self._waker, b"w")

    def write(self, data: bytes) -> None:
        """Write to the terminal."""
        _write(self._target, data)

    def run(self, program: Callable[[], int], *, on_start: Callable[[], None] = lambda: None) -> int:
        """Run `program` in a child process, call `on_start` as soon as that runs, and return its exit code."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._child, self._leader = _fork(program)
        try:
            os.set_blocking(self._leader, False)
            self._resize()
            with self._signals(), _raw(self._source):
                on_start()
                self._copy()
            status = os.waitpid(self._child, 0)[1] if self._status is None else self._status
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code
        finally:
            for descriptor in (self._leader, self._woken, self._waker):
                os.close(descriptor)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def pass_on(number: int, _: object) -> None:
            self._kill(number)

        def wake(_number: int, _: object) -> None:
            pass  # the descriptor below does, whichever thread the signal reaches

        def resize(_number: int, _: object) -> None:
            self._resize()
            self._shown = self._shown and [""]  # draw anew

        passed = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), pass_on)
        handlers = {**passed, signal.SIGCHLD: wake, signal.SIGWINCH: resize}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        waker = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(waker)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _kill(self, number: int) -> None:
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self._child, number)

    def _has_ended(self) -> bool:
        """Return whether the program has ended; other children may have, too."""
        if self._status is None:
            child, status = os.waitpid(self._child, os.WNOHANG)
            self._status = status if child else None
        return self._status is not None

    def _resize(self, fewer: int = 0) -> None:
        with suppress(termios.error, OSError):
            rows, columns = termios.tcgetwinsize(self._source)
            termios.tcsetwinsize(self._leader, (max(rows - fewer, 0), columns))

    def _copy(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._source, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(self._leader, selectors.EVENT_READ)
            self._has_ended()  # it may have before its signal could wake this loop
            while True:
                ready = {key.fd: events for key, events in selector.select(self._timeout())}
                if self._woken in ready:
                    os.read(self._woken, CHUNK)
                if self._source in ready and not self._read_keys():
                    selector.unregister(self._source)
                if ready.get(self._leader, 0) & selectors.EVENT_WRITE:
                    self._write_program()
                if ready.get(self._leader, 0) & selectors.EVENT_READ and not self._read_program():
                    return
                ended = self._has_ended()
                if ended and not ready:
                    return  # something else keeps the terminal open
                # Without a terminal nobody answers, and the program has to write its last output.
                self._update(ended=ended or self._gone)
                if not self._shown:
                    self._type(b"")
                _listen(selector, self._leader, reads=not self._shown, writes=bool(self._to_program))

    def _timeout(self) -> float | None:
        if self._wanted or self._smaller_since or self._status is not None:
            return QUIET_SECONDS
        return TICK_SECONDS if self._shown else None

    def _read_keys(self) -> bool:
        try:
            data = os.read(self._source, CHUNK)
        except OSError:
            data = b""
        if not data:
            self._gone = True  # the terminal is
            self._kill(signal.SIGHUP)
            return False
        if self._shown:
            now = time.monotonic()
            if (key := _key(data)) and now - self._settling >= SETTLE_SECONDS:
                self._overlay.press(key)
            else:
                self._settling = now
        else:
            self._type(data)
        return True

    def _type(self, data: bytes) -> None:
        if data := self._input_filter(data):
            self._typed = time.monotonic()
            self._to_program += data
            self._write_program()

    def _write_program(self) -> None:
        try:
            self._to_program = self._to_program[os.write(self._leader, self._to_program) :]
        except BlockingIOError:
            pass
        except OSError:
            self._to_program = b""  # it has ended

    def _read_program(self) -> bool:
        try:
            data = os.read(self._leader, CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # Linux reports the end so
            return False
        if not data:
            return False
        data = self._output_filter(data)
        self.write(data)
        self._written = time.monotonic()
        for found in MODES.finditer(self._tail + data):
            if not ALTERNATE.isdisjoint(found["modes"].split(b";")):
                self._alternate = found["on"] == b"h"
        self._tail = (self._tail + data)[-16:]
        return True

    def _update(self, *, ended: bool) -> None:
        """Show the overlay, draw it anew, or take it away."""
        if self._smaller_since and time.monotonic() - self._smaller_since >= RESIZED_SECONDS:
            self._smaller_since = 0.0
            self._resize()
        rows, columns = self.size
        lines = [] if ended else [*self._overlay.lines(columns)][:rows]
        if lines == self._shown:
            self._wanted = 0.0
        elif not lines:
            self._hide()
        elif self._shown:
            self._draw(lines)
        else:
            self._show_in_time(lines)

    @property
    def size(self) -> tuple[int, int]:
        """The rows and columns of the terminal."""
        with suppress(termios.error, OSError):
            rows, columns = termios.tcgetwinsize(self._source)
            return rows or 24, columns or 80
        return 24, 80

    def _show_in_time(self, lines: list[str]) -> None:
        """Show the overlay when the program writes nothing, and the user has not just typed."""
        now = time.monotonic()
        self._wanted = self._wanted or now
        quiet = now - self._written >= QUIET_SECONDS
        if not quiet and now - self._wanted < LONGEST_SECONDS:
            return
        if calling := self._overlay.signal():
            _write(self._target, CANCEL + calling)
        if now - self._typed >= TYPING_SECONDS:
            _write(self._target, CANCEL + (b"\x1b7" if self._alternate else b"\x1b[?1049h") + PLAIN)
            self._settling = now
            self._draw(lines)

    def _draw(self, lines: list[str]) -> None:
        title, *rest = (line.encode("utf-8", "replace") for line in lines)
        shown = b"\r\n".join((BOLD + title + NOT_BOLD, *rest))
        _write(self._target, COLOURS + b"\x1b[2J\x1b[H" + shown)
        self._shown, self._wanted = lines, 0.0

    def _hide(self) -> None:
        self._wanted = 0.0
        if not self._shown:
            return
        self._shown = []
        self._typed = time.monotonic()  # a second press of the same key is for the program, not for the next question
        if not self._alternate:
            _write(self._target, b"\x1b[0m\x1b[?1049l")
            return
        # There is no third screen: the program has to draw its own anew, which it does when the size changes.
        _write(self._target, b"\x1b[0m\x1b[2J\x1b8")
        self._resize(fewer=1)
        self._smaller_since = time.monotonic()


def _fork(program: Callable[[], int]) -> tuple[int, int]:
    child, leader = pty.fork()
    if child:
        os.set_inheritable(leader, False)  # noqa: FBT003 - its only form
        return child, leader
    code = FAILED
    try:
        code = program()
    finally:
        os._exit(code)


def _listen(selector: selectors.BaseSelector, descriptor: int, *, reads: bool, writes: bool) -> None:
    events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)
    known = selector.get_map().get(descriptor)
    if known is None and events:
        selector.register(descriptor, events)
    elif known is not None and not events:
        selector.unregister(descriptor)
    elif known is not None and known.events != events:
        selector.modify(descriptor, events)


def _key(data: bytes) -> str:
    """Return the key that was pressed, "escape" for Esc and Ctrl-C; "" for anything else, such as pasted text."""
    if found := KITTY_KEY.fullmatch(data):
        data = bytes([int(found["key"])]) if int(found["key"]) < 128 else b""
    if data in {b"\x1b", b"\x03"}:
        return "escape"
    return data.decode("ascii") if len(data) == 1 and data.isalnum() else ""


@contextmanager
def _raw(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)  # its default loses what the user has typed already
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _write(target: int, data: bytes) -> None:
    with suppress(OSError):  # the terminal is gone: the program notices at the end of its input
        while data:
            try:
                data = data[os.write(target, data) :]
            except BlockingIOError:  # another process may have made it so
                select.select([], [target], [])
