import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.terminal.style import VARIABLE
from agent_sandbox.features.watch.commands import watch as subject
from agent_sandbox.features.watch.commands.watch import watch
from agent_sandbox.features.watch.watching.screen import WatchScreen
from fake_docker import FakeDocker
from fake_stack import with_containers
from watching import await_threads

RECORD = {"time": "x", "decision": "deny", "method": "GET", "host": "b.test", "port": 443, "path": "/", "reason": "no"}
LINE = json.dumps({"record": RECORD})


@pytest.fixture
def up(project: Path, docker: FakeDocker) -> Iterator[FakeDocker]:
    """Fake a running proxy; wait for the threads that watch it."""
    assert project.exists()
    yield with_containers(docker, proxy="healthy")
    await_threads("follow", "_watch")


def test_prints_decisions_until_ctrl_c(
    up: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    up.says("watch --control", script=f"echo {shlex.quote(LINE)}; sleep 0.1; kill -INT {os.getpid()}")
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert exit_code(lambda: watch(plain=True)) == 130
    assert capsys.readouterr().out == "x  deny   GET https://b.test/  no\n"


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake a terminal."""
    monkeypatch.setattr(subject, "at_terminal", lambda: True)


@pytest.mark.usefixtures("at_a_terminal", "up")
def test_connects_the_screen_to_the_stack_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    def run(screen: WatchScreen) -> None:
        while not screen._stacks:
            time.sleep(0.01)
        connected.extend(stack.connection.project.name for stack in screen._stacks.values() if stack.connection)

    monkeypatch.setattr(WatchScreen, "run", run)
    monkeypatch.setattr(WatchScreen, "call_later", lambda _, call, *words: None if words else call())
    assert exit_code(watch) == 0
    assert connected == ["app-1"]


@pytest.mark.usefixtures("at_a_terminal")
def test_the_screen_begins_with_the_last_records_of_the_log(up: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[tuple[str, list[object]]] = []

    def run(_screen: WatchScreen) -> None:
        while not before:
            time.sleep(0.01)

    up.says("--tail 100", out=f"{json.dumps(RECORD)}\nno record\n")
    monkeypatch.setattr(WatchScreen, "run", run)
    monkeypatch.setattr(WatchScreen, "begin", lambda _, name, records: before.append((name, list(records))))
    monkeypatch.setattr(WatchScreen, "call_later", lambda _, call, *words: None if words else call())
    assert exit_code(watch) == 0
    assert before == [("app-1", [RECORD])]


@pytest.mark.usefixtures("at_a_terminal", "up")
@pytest.mark.parametrize(("wanted", "colours"), [("never", False), ("always", True)])
def test_the_screen_follows_the_colour_setting(monkeypatch: pytest.MonkeyPatch, wanted: str, *, colours: bool) -> None:
    seen: list[bool] = []
    monkeypatch.setenv(VARIABLE, wanted)
    monkeypatch.setattr(WatchScreen, "run", lambda screen: seen.append(screen._colours))
    monkeypatch.setattr(WatchScreen, "call_later", lambda _, call, *words: None if words else call())
    assert exit_code(watch) == 0
    assert seen == [colours]


@pytest.mark.usefixtures("at_a_terminal")
def test_prints_lines_if_textual_is_not_installed(
    up: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "find_spec", lambda _: None)
    up.says("watch --answers --control", script="cat > /dev/null")
    source, answers = os.pipe()
    with os.fdopen(source) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(answers, b"q\n")
        assert exit_code(watch) == 0
    os.close(answers)
    assert "the package textual is not installed, so this prints lines" in capsys.readouterr().err


def test_q_ends_watching(up: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    up.says("watch --answers --control", script="cat > /dev/null")
    source, answers = os.pipe()
    with os.fdopen(source) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(answers, b"q\n")
        assert exit_code(lambda: watch(plain=True)) == 0
    os.close(answers)


def test_fails_without_a_running_stack(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    with_containers(docker).says("volume ls")
    assert exit_code(watch) == 1
    assert exit_code(lambda: watch(all_stacks=True)) == 1
    assert exit_code(lambda: watch(all_stacks=True, path=Path())) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: app-1: the stack is not running",
        "  hint: agent-sandbox up",
        "error: no stack is running",
        "  hint: agent-sandbox up, in a project; agent-sandbox ls lists all",
        "error: --all: cannot be combined with --path",
        "  hint: leave one of them out",
    ]
