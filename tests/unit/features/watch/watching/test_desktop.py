from pathlib import Path

import pytest

from agent_sandbox.features.proxy.reports import Question, State
from agent_sandbox.features.watch.watching import desktop as subject
from agent_sandbox.features.watch.watching.desktop import PAUSE_SECONDS, Desktop


def asks(*numbers: int) -> State:
    """Return a state with these questions."""
    questions = tuple(
        Question(
            id=number,
            method="P&T",
            url="https://new.test/",
            host="new.test",
            details="",
            reason="",
            services=(),
            rule="",
            requests=1,
            seconds_left=60,
        )
        for number in numbers
    )
    return State(ask="unlisted", questions=questions)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return what was started."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(subject, "leave_running", commands.append)
    return commands


def desktop(
    folder: Path, name: str, *, platform: str = "linux", now: list[float] | None = None, display: str = "DISPLAY"
) -> Desktop:
    """Return a desktop with one program."""
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    clock = now or [0.0]
    return Desktop(environ={"PATH": str(folder), display: ":0"}, platform=platform, clock=lambda: clock[0])


def test_combines_new_questions_into_one_notification(tmp_path: Path, started: list[tuple[str, ...]]) -> None:
    now = [100.0]
    shown = desktop(tmp_path, "notify-send", now=now)
    for state in (asks(), asks(1), asks(1), asks(1, 2)):
        shown.report(state)
    now[0] += PAUSE_SECONDS
    shown.report(asks(1, 2))
    shown.report(asks(3, 4))
    command = (str(tmp_path / "notify-send"), "--app-name=agent-sandbox", "--", "agent-sandbox")
    assert started == [
        (*command, "P&amp;T new.test waits for you"),
        (*command, "P&amp;T new.test and 1 more wait for you"),
    ]


def test_passes_the_text_as_an_argument_on_macos(tmp_path: Path, started: list[tuple[str, ...]]) -> None:
    desktop(tmp_path, "osascript", platform="darwin").report(asks(1))
    ((program, *words),) = started
    assert (program, words[-1]) == (str(tmp_path / "osascript"), "P&amp;T new.test waits for you")
    assert not any("new.test" in word for word in words[:-1])


@pytest.mark.parametrize(("name", "display"), [("notify-send", "TERM"), ("other", "WAYLAND_DISPLAY")])
def test_starts_nothing_without_a_desktop(
    tmp_path: Path, started: list[tuple[str, ...]], name: str, display: str
) -> None:
    desktop(tmp_path, name, display=display).report(asks(1))
    assert started == []


def test_starts_no_program_of_a_project(tmp_path: Path, started: list[tuple[str, ...]]) -> None:
    (tmp_path / ".devcontainer").mkdir()
    desktop(tmp_path, "notify-send").report(asks(1))
    assert started == []
