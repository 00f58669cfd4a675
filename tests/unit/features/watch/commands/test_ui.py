import os
import shlex
import signal
import sys
import webbrowser
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.watch.commands import ui as subject
from agent_sandbox.features.watch.commands.ui import ui
from fake_docker import FakeDocker
from fake_stack import with_containers
from watching import await_threads

STATE = '{"state": {"ask": "", "questions": [], "grants": []}}'
WATCH = "watch --answers --control"


@pytest.fixture
def up(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake a running proxy."""
    assert project.exists()
    return with_containers(docker, proxy="healthy")


def run(monkeypatch: pytest.MonkeyPatch, *, ask: bool = False, open_browser: bool = False) -> int:
    source, answers = os.pipe()
    os.write(answers, b"\n")
    before = signal.getsignal(signal.SIGTTIN)
    with os.fdopen(source) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code = exit_code(lambda: ui(ask=ask, open_browser=open_browser))
        os.close(answers)
        await_threads("offer_again", "follow", "_watch")
    signal.signal(signal.SIGTTIN, before)
    return code


def test_serves_until_ctrl_c_and_prints_an_address_for_each_enter(
    up: FakeDocker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    up.says(WATCH, script=f"echo {shlex.quote(STATE)}; exec cat > /dev/null")
    opened: list[str] = []

    def open_browser(address: str) -> None:
        opened.append(address)
        if len(opened) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(webbrowser, "open", open_browser)
    assert run(monkeypatch, open_browser=True) == 130
    said = capsys.readouterr()
    addresses = said.out.splitlines()
    assert len({*addresses}) == 2
    assert all(address.startswith("http://127.0.0.1:") and "/#" in address for address in addresses)
    assert opened == addresses
    assert "app-1: open this address in a browser on this machine; it works once" in said.err


def test_ask_option_passes_asks_to_the_proxy(up: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    up.says("watch --answers --asks --control", script=f"kill -INT {os.getpid()}; exec cat > /dev/null")
    assert run(monkeypatch, ask=True) == 130
    assert any("--asks" in call for call in up.calls)


@pytest.mark.usefixtures("up")
def test_names_the_missing_packages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert exit_code(ui) == 1
    assert capsys.readouterr().err == (
        "error: agent-sandbox ui: the packages starlette and uvicorn are not installed\n"
        "  hint: install agent-sandbox with the extra `ui`; agent-sandbox watch shows the same in a terminal\n"
    )


def test_needs_a_running_stack(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    with_containers(docker)
    assert exit_code(ui) == 1
    assert "the stack is not running" in capsys.readouterr().err
