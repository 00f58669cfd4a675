import os
import signal
import threading
from pathlib import Path

import pytest

from agent_sandbox.host import attached
from agent_sandbox.host.attached import run_attached

PASS = ("sh", "-c", 'echo "$1" >>passed; kill -s "$1" "$(cat pid)"', "sh")
SELF = "echo $$ >pid; "
FOREVER = "while :; do sleep 0.01; done"


def attend(script: str, tmp_path: Path, *, pass_signal: tuple[str, ...] = PASS) -> tuple[int, list[str]]:
    """Run a shell script as the client; return its exit code and the signals that were passed on."""
    code = run_attached(("sh", "-c", SELF + script), cwd=tmp_path, pass_signal=pass_signal)
    passed = tmp_path / "passed"
    return code, passed.read_text().split() if passed.exists() else []


def test_returns_the_exit_code_of_the_client(tmp_path: Path) -> None:
    assert attend("exit 7", tmp_path) == (7, [])


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM"])
def test_passes_a_signal_on_and_returns_the_clients_exit_code(tmp_path: Path, name: str) -> None:
    before = signal.getsignal(signal.Signals[f"SIG{name}"])
    assert attend(f"trap 'exit 9' {name}; kill -{name} $PPID; {FOREVER}", tmp_path) == (9, [name])
    assert signal.getsignal(signal.Signals[f"SIG{name}"]) == before


def test_returns_128_plus_the_number_of_the_signal_that_ended_the_program(tmp_path: Path) -> None:
    assert attend(f"kill -TERM $PPID; {FOREVER}", tmp_path) == (143, ["TERM"])


@pytest.mark.parametrize(("name", "passed", "code"), [("HUP", "HUP", 129), ("KILL", "TERM", 137)])
def test_passes_on_the_signal_that_ended_the_client_with_term_for_kill(
    tmp_path: Path, name: str, passed: str, code: int
) -> None:
    assert attend(f"kill -{name} $$; {FOREVER}", tmp_path) == (code, [passed])


@pytest.mark.parametrize(("read", "code", "passed"), [(False, 141, ["TERM"]), (True, 255, [])])
def test_ends_the_command_if_its_output_is_no_longer_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, read: bool, code: int, passed: list[str]
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(attached, "STDOUT", writer)
    if not read:
        os.close(reader)
    try:
        assert attend("exit 255", tmp_path) == (code, passed)
        assert attend("exit 3", tmp_path)[0] == 3
    finally:
        for end in (reader, writer) if read else (writer,):
            os.close(end)


def test_passes_on_a_signal_that_arrives_while_the_client_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both arrive while the first signal is passed on.
    monkeypatch.setattr(attached, "_wait", lambda client, received: received.put(attached.ENDED * client.wait()))
    pass_signal = ("sh", "-c", 'echo "$1" >>passed; touch go', "sh")
    script = "kill -INT $PPID; while ! [ -e go ]; do sleep 0.01; done; kill -TERM $PPID; exit 3"
    code, passed = attend(script, tmp_path, pass_signal=pass_signal)
    assert (code, passed) in [(3, ["INT", "TERM"]), (143, ["INT", "TERM"])]


@pytest.mark.parametrize("unreachable", [("false",), ("sleep", "60", "#"), ("sh", "-c", "kill -KILL $$")])
def test_ends_the_client_if_the_signal_cannot_be_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreachable: tuple[str, ...]
) -> None:
    monkeypatch.setattr(attached, "GRACE", 0.01)
    monkeypatch.setattr(attached, "PASS_SECONDS", 0.05)
    assert attend(f"kill -TERM $PPID; {FOREVER}", tmp_path, pass_signal=unreachable) == (143, [])


def test_output_is_passed_on_until_the_client_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[bytes] = []
    argv = ("sh", "-c", "echo one; echo two >&2; exit 3")
    assert run_attached(argv, cwd=tmp_path, pass_signal=PASS, on_output=parts.append) == 3
    assert b"".join(parts) == b"one\n"
    # A process that the client left behind keeps the pipe open.
    monkeypatch.setattr(attached, "READ_SECONDS", 0.01)
    left = ("sh", "-c", "sleep 600 & echo $! >pid")
    threads = {*threading.enumerate()}
    assert run_attached(left, cwd=tmp_path, pass_signal=PASS, on_output=parts.append) == 0
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
    for reader in {*threading.enumerate()} - threads:
        reader.join()


def test_returns_the_clients_exit_code_if_passing_the_signal_on_fails(tmp_path: Path) -> None:
    script = "kill -TERM $PPID; while ! [ -e gone ]; do sleep 0.01; done; exit 4"
    assert attend(script, tmp_path, pass_signal=("sh", "-c", "touch gone; false")) == (4, [])


def test_repeats_the_command_that_passes_a_signal_on_if_a_signal_ends_the_command(tmp_path: Path) -> None:
    once = ("sh", "-c", f"[ -e once ] || {{ touch once; kill -TERM $$; }}; {PASS[2]}", "sh")
    assert attend(f"trap 'exit 9' TERM; kill -TERM $PPID; {FOREVER}", tmp_path, pass_signal=once) == (9, ["TERM"])


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert attend("kill -HUP $PPID; exit 2", tmp_path) == (2, [])
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_client_at_a_terminal_is_in_our_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: terminal)
    attend("ps -o pgid= $$ >group", tmp_path)
    assert (int((tmp_path / "group").read_text()) == os.getpgrp()) is terminal
