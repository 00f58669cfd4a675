import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent_sandbox.features.proxy.reports import State
from agent_sandbox.features.watch.watching.asking_run import HOW, run_asking
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.host.pty_session import PtySession
from agent_sandbox.project.installed import open_project


@pytest.mark.usefixtures("project")
def test_asks_while_the_command_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    watched, woken = threading.Event(), threading.Event()
    over: list[bool] = []

    def watch(connection: Connection, *, answers: bool, asks: bool) -> None:
        assert (answers, asks) == (True, True)
        connection._on_report(State())
        watched.set()

    def attached(argv: Sequence[str], *, cwd: Path, pass_signal: Sequence[str], **_: object) -> int:
        assert (argv[-1], cwd, bool(pass_signal)) == ("agent", Path.cwd(), True)
        return 3

    def run(_: PtySession, program: Callable[[], int], *, on_start: Callable[[], None]) -> int:
        on_start()
        assert watched.wait(30)
        assert woken.is_set()
        return program()

    monkeypatch.setattr("agent_sandbox.host.attached.run_attached", attached)
    monkeypatch.setattr(Connection, "watch", watch)
    monkeypatch.setattr(Connection, "end", lambda _: over.append(True))
    monkeypatch.setattr(PtySession, "run", run)
    monkeypatch.setattr(PtySession, "wake", lambda _: woken.set())
    project = open_project(None, cwd=Path.cwd())
    assert run_asking(project, "agent") == 3
    assert (over, capsys.readouterr().err) == ([True], f"{HOW}\n")
