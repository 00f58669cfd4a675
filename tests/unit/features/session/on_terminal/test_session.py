import base64
import os
import pty
import select
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread

import pytest

from agent_sandbox.features.session.clipboard.clipboard_filter import copy_sequence
from agent_sandbox.features.session.clipboard.paste_reader import pasted
from agent_sandbox.features.session.on_terminal import link_question
from agent_sandbox.features.session.on_terminal import session as subject
from agent_sandbox.features.session.on_terminal.image_question import FOLDER
from agent_sandbox.features.session.on_terminal.session import Overlays, TerminalSession
from agent_sandbox.features.stack import execute
from agent_sandbox.host import pty_session
from agent_sandbox.host.pty_session import PtySession
from agent_sandbox.project.installed import open_project


class Seat:
    """A terminal, what it shows, and what is typed when it shows something."""

    def __init__(self) -> None:
        self.leader, self.follower = pty.openpty()
        termios.tcsetwinsize(self.follower, (24, 80))
        self.shown = b""
        self.steps: list[tuple[bytes, bytes]] = []
        self.over = False

    def look(self) -> None:
        """Read what is shown until the end, and type each answer once after its text has appeared."""
        while not self.over:
            if select.select([self.leader], [], [], 0.01)[0]:
                self.shown += os.read(self.leader, 1 << 16)
            if self.steps and self.steps[0][0] in self.shown:
                os.write(self.leader, self.steps.pop(0)[1])
        while select.select([self.leader], [], [], 0)[0]:
            self.shown += os.read(self.leader, 1 << 16)


@pytest.fixture
def seat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seat]:
    """A terminal in place of this one, where no key is too early."""
    one = Seat()

    def session(*args: object, **options: object) -> PtySession:
        return PtySession(*args, **options, source=one.follower, target=one.follower)  # type: ignore[arg-type]

    monkeypatch.setattr(subject, "PtySession", session)
    monkeypatch.setattr(pty_session, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(pty_session, "TYPING_SECONDS", 0.0)
    yield one
    os.close(one.leader)
    os.close(one.follower)


def run(seat: Seat, monkeypatch: pytest.MonkeyPatch, program: Callable[[], int], *, images: bool = False) -> int:
    """Run a program in place of the command of the sandbox."""

    def attached(argv: Sequence[str], *, cwd: Path, pass_signal: Sequence[str], **_: object) -> int:
        assert (argv[-1], cwd, bool(pass_signal)) == ("agent", Path.cwd(), True)
        return program()

    monkeypatch.setattr("agent_sandbox.host.attached.run_attached", attached)
    looking = Thread(target=seat.look)
    looking.start()
    try:
        return TerminalSession(open_project(None, cwd=Path.cwd()), images=images).run("agent")
    finally:
        seat.over = True
        looking.join()


def wants_to_copy(text: bytes) -> Callable[[], int]:
    """Return a program that copies this, waits for a line, and returns 3."""

    def program() -> int:
        os.write(1, b"begins " + copy_sequence(text))
        time.sleep(0.05)
        os.write(1, b"goes on ")
        os.read(0, 1)
        return 3

    return program


@pytest.mark.usefixtures("project")
def test_copies_after_a_key_press(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    seat.steps = [(b"y  copy it", b"y"), (copy_sequence(b"text"), b"\n")]
    assert run(seat, monkeypatch, wants_to_copy(b"text")) == 3
    assert seat.shown.count(b"\x1b]52") == 1
    assert b"goes on" in seat.shown


@pytest.mark.usefixtures("project")
def test_copies_nothing_if_the_program_ends_before_the_answer(
    seat: Seat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pty_session, "TYPING_SECONDS", 3600.0)
    monkeypatch.setattr(PtySession, "_show_in_time", lambda *_: None)

    def program() -> int:
        os.write(1, b"before " + copy_sequence(b"text") + b"after")
        return 0

    assert run(seat, monkeypatch, program) == 0
    assert seat.shown == b"before after"
    name = open_project(None, cwd=Path.cwd()).name
    said = f"the program in {name} wanted to copy 4 B to your clipboard, and ended before you could answer"
    assert capsys.readouterr().err == f"not copied: {said}\n"


def wants_to_open(url: bytes) -> Callable[[], int]:
    """Return a program that asks to open this as images/agent/open-url does, and waits for a line."""

    def program() -> int:
        os.write(1, b"begins \x1b]8052;" + base64.b64encode(url) + b"\x1b\\")
        time.sleep(0.05)
        os.write(1, b"goes on ")
        os.read(0, 1)
        return 0

    return program


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("key", "opened"), [(b"y", ["https://a.example.com/x"]), (b"n", [])])
def test_opens_a_page_only_after_a_key_press(
    seat: Seat, monkeypatch: pytest.MonkeyPatch, key: bytes, opened: list[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(link_question, "browse", lambda url, project: ran.append(f"{url} in {project}"))
    seat.steps = [(b"y  open it", key), (b"goes on", b"\n")]
    assert run(seat, monkeypatch, wants_to_open(b"https://a.example.com/x")) == 0
    assert ran == [f"{url} in {Path.cwd()}" for url in opened]
    assert b"8052" not in seat.shown


@pytest.mark.usefixtures("project")
def test_opens_no_page_if_the_program_ends_before_the_answer(
    seat: Seat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PtySession, "_show_in_time", lambda *_: None)
    monkeypatch.setattr(link_question, "browse", lambda *_, **__: pytest.fail("nobody agreed"))
    seat.steps = [(b"goes on", b"\n")]
    assert run(seat, monkeypatch, wants_to_open(b"https://a.example.com/x")) == 0
    name = open_project(None, cwd=Path.cwd()).name
    said = f"the program in {name} wanted to open a page of a.example.com, and ended before you could answer"
    assert capsys.readouterr().err == f"not opened: {said}\n"


@pytest.mark.usefixtures("project")
def test_a_command_on_a_terminal_runs_in_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "at_terminal", lambda: True)
    codes = iter((0, 7))
    ran: list[Sequence[str]] = []

    def attached(_: TerminalSession, *command: str) -> int:
        ran.append(command)
        return next(codes)

    monkeypatch.setattr(TerminalSession, "run", attached)
    project = open_project(None, cwd=Path.cwd())
    execute.attach(project, "zsh")
    with pytest.raises(SystemExit, match=r"^7$"):
        execute.attach(project, "zsh", "-c", "exit 7")
    assert ran == [("zsh",), ("zsh", "-c", "exit 7")]


@pytest.mark.usefixtures("project")
def test_treats_only_terminal_input_as_a_paste(seat: Seat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    image = tmp_path / "shot.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\nrest")
    copied: list[bytes] = []

    def copy(_within: object, content: bytes, path: str) -> None:
        assert path.startswith(f"{FOLDER}/pasted-")
        copied.append(content)

    monkeypatch.setattr(subject, "file_to_sandbox", copy)
    seat.steps = [(b"begins", pasted(str(image))), (b"y  copy", b"y")]

    def program() -> int:
        tty.setraw(0)
        os.write(1, pasted(str(image)) * 2 + b"begins")  # what it prints itself is none
        got = b""
        while not got.endswith(b"~") or len(got) < 20:
            got += os.read(0, 100)
        return 0 if got.startswith(b"\x1b[200~/tmp/pasted-") and got.endswith(b".png\x1b[201~") else 1

    assert run(seat, monkeypatch, program, images=True) == 0
    assert copied == [b"\x89PNG\r\n\x1a\nrest"]


class Shown:
    """An overlay with these lines."""

    def __init__(self, *lines: str) -> None:
        self.shown: Sequence[str] = lines
        self.keys: list[str] = []

    def lines(self, columns: int) -> Sequence[str]:
        """Return the lines."""
        return self.shown if columns else ()

    def signal(self) -> bytes:
        """Ring if it is shown."""
        return b"\x07" if self.shown else b""

    def press(self, key: str) -> None:
        """Keep the key."""
        self.keys.append(key)


def test_shows_one_overlay_until_it_is_done_before_the_next() -> None:
    changes: list[bool] = []
    first, second = Shown(), Shown("second")
    both = Overlays((first, second), changed=lambda: changes.append(True))
    assert both.lines(80) == ("second",)
    first.shown = ("first",)
    assert both.lines(80) == ("second",)  # not another one under the user's finger
    second.shown = ()
    assert (both.lines(80), changes) == ([], [True])
    both.press("y")
    assert both.lines(80) == ("first",)
    both.press("d")
    assert (first.keys, second.keys) == (["d"], [])


def test_rings_for_each_active_overlay_and_shows_nothing_without_one() -> None:
    assert Overlays((Shown("a"), Shown(), Shown("b")), changed=lambda: None).signal() == b"\x07\x07"
    nothing = Overlays((Shown(),), changed=lambda: None)
    assert nothing.lines(80) == []
    nothing.press("y")
