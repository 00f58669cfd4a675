import os
import pty
import re
import select
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import pytest

from agent_sandbox.host import pty_session as subject
from agent_sandbox.host.pty_session import PtySession

# Sequences that end an incomplete string of the program, and that reset modes which could hide the question.
ENDS, PLAIN = re.escape(subject.CANCEL), re.escape(subject.PLAIN)
COLOURED = re.escape(subject.COLOURS)
DRAWN = PLAIN + COLOURED + rb"\x1b\[2J\x1b\[H\x1b\[1mwaits"
SHOWN = ENDS + rb"\x1b\[\?1049h" + DRAWN
HIDDEN = rb"\x1b\[0m\x1b\[\?1049l"


class Question:
    """A question that shows lines while it is open, and rings once."""

    def __init__(self) -> None:
        self.open, self.rung = False, False
        self.keys: list[str] = []

    def lines(self, columns: int) -> Sequence[str]:
        """Return the lines, none if the question is closed."""
        return [f"waits {columns}", "second"] if self.open else []

    def signal(self) -> bytes:
        """Ring."""
        self.rung, before = True, self.rung
        return b"" if before else b"\x07"

    def press(self, key: str) -> None:
        """Store the key, and close the question."""
        self.keys.append(key)
        self.open = False


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        """Return the time."""
        return self.now


class Seat:
    """A terminal and its user: the user acts in another thread, the session runs in this one."""

    def __init__(self) -> None:
        self.leader, self.follower = pty.openpty()
        termios.tcsetwinsize(self.follower, (24, 80))
        self.question = Question()
        self.session = PtySession(self.question, source=self.follower, target=self.follower)
        self.seen = b""
        self.failed: list[BaseException] = []

    def __enter__(self) -> Self:
        """Sit down."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        for descriptor in (self.leader, self.follower):
            os.close(descriptor)

    def run(self, script: str, act: Callable[[], None]) -> int:
        """Run a shell script on the terminal while the user acts, then watches; return its exit code."""
        ended = threading.Event()

        def acting() -> None:
            try:
                act()
                while not ended.wait(0.01):  # a terminal that is not read blocks its writers
                    self.read_all()
            except BaseException as error:  # noqa: BLE001 - raised below
                self.failed.append(error)
                os.kill(self.session._child, signal.SIGKILL)

        thread = threading.Thread(target=acting)
        try:
            code = self.session.run(lambda: os.execvp("sh", ("sh", "-c", script)), on_start=thread.start)  # noqa: S606 - a shell is the point
        finally:
            ended.set()
        thread.join()
        if self.failed:
            raise self.failed[0]
        self.read_all()
        return code

    def read_all(self) -> None:
        """Read what the terminal shows."""
        while select.select([self.leader], [], [], 0)[0] and (data := os.read(self.leader, 65536)):
            self.seen += data

    def sees(self, pattern: bytes) -> None:
        """Wait until the terminal has shown this pattern, and discard what it showed."""
        end = time.monotonic() + 30
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            assert time.monotonic() < end, self.seen
            if select.select([self.leader], [], [], 0.1)[0]:
                self.seen += os.read(self.leader, 65536)
        self.seen = self.seen[found.end() :]

    def waits(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true."""
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.005)

    def types(self, keys: bytes) -> None:
        """Type."""
        os.write(self.leader, keys)

    def asks(self) -> None:
        """Open the question."""
        self.question.open = True
        self.session.wake()


def until(file: Path) -> str:
    """Return a shell command that waits for a file."""
    return f"while [ ! -e {file} ]; do sleep 0.01; done"


@pytest.fixture
def seat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seat]:
    """Return a terminal whose user need not wait."""
    for name in ("TYPING_SECONDS", "SETTLE_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(subject, name, 0.01)
    monkeypatch.setattr(subject, "RESIZED_SECONDS", 0.05)
    with Seat() as seat:
        yield seat


def test_runs_a_program_as_if_directly_on_the_terminal(seat: Seat) -> None:
    before = termios.tcgetattr(seat.follower)

    def act() -> None:
        seat.sees(b"ready")
        seat.types(b"one line\r")
        seat.sees(b"got one line")

    assert seat.run("stty size; echo ready; read x; echo got $x; exit 7", act) == 7
    assert b"24 80" not in seat.seen
    after = termios.tcgetattr(seat.follower)
    assert (before, seat.question.rung) == (after, False)


def test_keys_typed_before_the_program_starts_reach_the_program(seat: Seat) -> None:
    seat.types(b"early\r")
    assert seat.run("read x; [ $x = early ]", lambda: None) == 0


def test_loses_no_output_on_a_non_blocking_terminal(seat: Seat) -> None:
    os.set_blocking(seat.follower, False)

    def act() -> None:
        time.sleep(0.1)  # the terminal is full by then
        seat.sees(b"30000\r\n")

    seat.run("seq 30000; echo end", act)
    assert re.search(rb"\bend\r\n", seat.seen)


def test_parses_a_long_sequence_of_modes_in_linear_time() -> None:
    assert not subject.MODES.search(b"\x1b[?" + b"47" * 200_000)  # in quadratic time, minutes


def test_returns_the_exit_code_that_a_shell_would_return(seat: Seat) -> None:
    assert seat.run("kill -9 $$", lambda: None) == 137
    for program, code in ((lambda: 3, 3), (lambda: 1 // 0, 127)):
        with Seat() as other:
            assert other.session.run(program) == code


def test_shows_a_question_over_the_program_and_a_single_key_answers_the_question(seat: Seat) -> None:
    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(rb"\x07" + SHOWN + rb" 80\x1b\[22m\r\nsecond")
        time.sleep(0.05)
        seat.types(b"pasted text")
        time.sleep(0.05)
        seat.types(b"a")
        seat.sees(HIDDEN)
        seat.types(b"typed\r")
        seat.sees(b"got typed")

    assert seat.run("echo ready; read x; echo got $x", act) == 0
    assert seat.question.keys == ["a"]


def test_shows_no_question_while_the_user_types(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "TYPING_SECONDS", 60)

    def act() -> None:
        seat.sees(b"ready")
        seat.types(b"y")
        seat.sees(b"y")
        seat.asks()
        seat.sees(rb"\x07")
        seat.types(b"es\r")
        seat.sees(b"got yes")

    assert seat.run("echo ready; read x; echo got $x", act) == 0
    assert (seat.question.keys, b"waits" in seat.seen) == ([], False)


def test_ignores_a_key_typed_right_after_a_question_appears(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "SETTLE_SECONDS", 60)

    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(SHOWN)
        seat.types(b"a")
        time.sleep(0.1)
        seat.question.open = False
        seat.session.wake()
        seat.sees(HIDDEN)
        seat.types(b"x\r")

    assert seat.run("echo ready; read x", act) == 0
    assert seat.question.keys == []


def test_does_not_take_pieces_of_terminal_responses_for_keys(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(SHOWN)
        monkeypatch.setattr(subject, "SETTLE_SECONDS", 0.2)
        monkeypatch.setattr(subject, "time", clock)
        clock.now += 1
        for piece in (b"\x1b]4;1;rgb:cd", b"a", b"\x1b[?62;22c", b"p"):
            clock.now += 0.1
            seat.types(piece)
            seat.waits(lambda: seat.session._settling == clock.now)
        clock.now += 0.25
        seat.types(b"d")
        seat.sees(HIDDEN)
        seat.types(b"x\r")

    assert seat.run("echo ready; read x", act) == 0
    assert seat.question.keys == ["d"]


def test_ends_an_incomplete_control_string_before_a_question_is_shown(seat: Seat) -> None:
    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(rb"\x18\x1b\\\x07\x18\x1b\\\x1b\[\?1049h\x1b\[\?2026l\x1b\[\?6l\x1b\[\?69l\x1b\[r")
        time.sleep(0.05)
        seat.types(b"d")
        seat.sees(HIDDEN)
        seat.types(b"\r")

    assert seat.run(r"printf 'ready\033_'; read x", act) == 0


def test_holds_back_the_programs_output_while_a_question_is_shown(seat: Seat, tmp_path: Path) -> None:
    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(SHOWN)
        (tmp_path / "go").touch()
        time.sleep(0.1)
        seat.read_all()
        assert b"tick" not in seat.seen
        seat.types(b"d")
        seat.sees(HIDDEN + b".*tick")
        seat.types(b"\r")

    assert seat.run(f"echo ready; {until(tmp_path / 'go')}; echo tick; read x", act) == 0


def test_a_full_screen_program_redraws_after_a_question(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "RESIZED_SECONDS", 1.0)  # the shell looks at signals every 0.1 s

    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(rb"\x1b7" + DRAWN)
        time.sleep(0.05)
        seat.types(b"d")
        seat.sees(rb"\x1b\[0m\x1b\[2J\x1b8.*drawn 23 80.*drawn 24 80")
        seat.types(b"\x03")

    # The sequence of the alternate screen comes in three pieces.
    script = r"""
        trap 'echo drawn $(stty size)' WINCH
        printf '\033[?25'; sleep 0.1; printf ';10'; sleep 0.1; printf '49hready'
        while :; do sleep 0.1; done
    """
    assert seat.run(script, act) == 130


def test_a_question_has_colours_that_a_program_cannot_change(seat: Seat) -> None:
    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        # Neither default colours nor colours of the palette, and the program's styles are reset.
        seat.sees(rb"\x1b\[0;38;2;230;230;230;48;2;22;24;28m\x1b\[2J\x1b\[H\x1b\[1mwaits 80\x1b\[22m\r\nsecond$")
        time.sleep(0.05)
        seat.types(b"d")
        seat.sees(HIDDEN)
        seat.types(b"\r")

    black = r"\033]10;#000\033\\\033]11;#000\033\\\033]4;7;#000\033\\\033[8;30;40m"
    assert seat.run(f"printf '{black}ready'; read x", act) == 0


def test_a_terminal_without_a_size_shows_questions(seat: Seat) -> None:
    termios.tcsetwinsize(seat.follower, (0, 0))

    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(DRAWN + b" 80")
        time.sleep(0.05)
        seat.types(b"d")
        seat.sees(rb"\x1b8")
        seat.types(b"\r")

    assert seat.run(r"printf '\033[?1049hready'; read x; exit 6", act) == 6


def test_shows_a_question_although_the_program_prints_without_a_pause(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(subject, "LONGEST_SECONDS", 0.1)

    def act() -> None:
        seat.sees(b"y\r\ny")
        seat.asks()
        seat.sees(ENDS + rb"\x07" + SHOWN)
        time.sleep(0.05)
        seat.types(b"\x1b[97u")
        seat.sees(HIDDEN)
        seat.types(b"\x03")

    assert seat.run("exec yes", act) == 130
    assert seat.question.keys == ["a"]


def test_hides_the_question_when_the_program_ends(seat: Seat, tmp_path: Path) -> None:
    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(SHOWN)
        (tmp_path / "go").touch()
        seat.sees(HIDDEN)

    assert seat.run(f"echo ready; {until(tmp_path / 'go')}; exit 3", act) == 3


def test_redraws_a_question_when_the_terminal_is_resized(seat: Seat) -> None:
    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(SHOWN + b" 80")
        termios.tcsetwinsize(seat.follower, (1, 40))
        os.kill(os.getpid(), signal.SIGWINCH)
        seat.sees(rb"waits 40(?!.*second)")
        time.sleep(0.05)
        seat.types(b"\x03")
        seat.sees(HIDDEN)
        seat.types(b"\r")
        seat.sees(b"1 40")

    assert seat.run("echo ready; read x; stty size", act) == 0
    assert seat.question.keys == ["escape"]


def test_passes_signals_to_the_program(seat: Seat) -> None:
    def act() -> None:
        seat.sees(b"ready")
        os.kill(os.getpid(), signal.SIGTERM)

    assert seat.run("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done", act) == 5


def test_the_program_gets_sighup_when_the_terminal_closes(seat: Seat) -> None:
    def act() -> None:
        seat.sees(b"ready")
        os.close(seat.leader)
        seat.leader = os.open(os.devnull, os.O_RDONLY)

    assert seat.run("trap 'exit 5' HUP; echo ready; while :; do echo x; sleep 0.05; done", act) == 5


def test_the_program_gets_sighup_when_the_terminal_closes_during_a_question(seat: Seat) -> None:
    def act() -> None:
        seat.sees(b"ready")
        seat.asks()
        seat.sees(SHOWN)
        os.close(seat.leader)
        seat.leader = os.open(os.devnull, os.O_RDONLY)

    # Its last output is larger than the buffer of its terminal.
    assert seat.run("trap 'seq 50000; exit 5' HUP; echo ready; while :; do sleep 0.05; done", act) == 5


def test_the_session_ends_although_another_process_keeps_the_terminal_open(seat: Seat, tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    script = f"trap '' HUP; sleep 600 & echo $! > {kept}; exit 4"
    assert seat.run(script, lambda: None) == 4
    os.kill(int(kept.read_text()), signal.SIGTERM)  # it is still there


def test_the_session_ends_if_the_program_ends_right_after_the_fork(
    seat: Seat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, kept = subject._fork, tmp_path / "pid"

    def fork_and_wait(program: Callable[[], int]) -> tuple[int, int]:
        child, leader = fork(program)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        return child, leader

    monkeypatch.setattr(subject, "_fork", fork_and_wait)
    assert seat.run(f"trap '' HUP; sleep 600 & echo $! > {kept}; exit 4", lambda: None) == 4
    os.kill(int(kept.read_text()), signal.SIGTERM)
