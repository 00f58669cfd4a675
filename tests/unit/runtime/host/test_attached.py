import os
import signal
import threading
from pathlib import Path

import pytest

from agent_sandbox.runtime.host import attached
from agent_sandbox.runtime.host.attached import run_attached

PASS = ("sh", "-c", 'echo "$1" >>passed; kill -s "$1" "$(cat pid)"', "sh")
SELF = "echo $$ >pid; "
FOREVER = "while :; do sleep 0.01; done"


def attend(script: str, tmp_path: Path, *, pass_signal: tuple[str, ...] = PASS) -> tuple[int, list[str]]:
    """Return the exit code of a client that a shell stands for, and the signals that were passed on."""
    code = run_attached(("sh", "-c", SELF + script), cwd=tmp_path, pass_signal=pass_signal)
    passed = tmp_path / "passed"
    return code, passed.read_text().split() if passed.exists() else []


def test_without_a_signal_the_exit_code_is_passed_on(tmp_path: Path) -> None:
    assert attend("exit 7", tmp_path) == (7, [])


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM"])
def test_a_signal_is_passed_on_and_the_exit_code_is_the_clients(tmp_path: Path, name: str) -> None:
    before = signal.getsignal(signal.Signals[f"SIG{name}"])
    assert attend(f"trap 'exit 9' {name}; kill -{name} $PPID; {FOREVER}", tmp_path) == (9, [name])
    assert signal.getsignal(signal.Signals[f"SIG{name}"]) == before


def test_a_program_that_a_signal_ends_gives_128_and_its_number(tmp_path: Path) -> None:
    assert attend(f"kill -TERM $PPID; {FOREVER}", tmp_path) == (143, ["TERM"])


@pytest.mark.parametrize(("name", "passed", "code"), [("HUP", "HUP", 129), ("KILL", "TERM", 137)])
def test_what_ends_the_client_is_passed_on(tmp_path: Path, name: str, passed: str, code: int) -> None:
    assert attend(f"kill -{name} $$; {FOREVER}", tmp_path) == (code, [passed])


@pytest.mark.parametrize(("read", "code", "passed"), [(False, 141, ["TERM"]), (True, 255, [])])
def test_a_command_whose_output_nobody_reads_any_more_is_ended(
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


def test_a_signal_beside_the_clients_end_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both arrive while the first signal is passed on.
    monkeypatch.setattr(attached, "_wait", lambda client, received: received.put(attached.ENDED * client.wait()))
    pass_signal = ("sh", "-c", 'echo "$1" >>passed; touch go', "sh")
    script = "kill -INT $PPID; while ! [ -e go ]; do sleep 0.01; done; kill -TERM $PPID; exit 3"
    code, passed = attend(script, tmp_path, pass_signal=pass_signal)
    assert (code, passed) in [(3, ["INT", "TERM"]), (143, ["INT", "TERM"])]


@pytest.mark.parametrize("unreachable", [("false",), ("sleep", "60", "#"), ("sh", "-c", "kill -KILL $$")])
def test_a_client_whose_program_cannot_be_reached_is_ended(
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
    # What the client left behind keeps the pipe open.
    monkeypatch.setattr(attached, "READ_SECONDS", 0.01)
    left = ("sh", "-c", "sleep 600 & echo $! >pid")
    threads = {*threading.enumerate()}
    assert run_attached(left, cwd=tmp_path, pass_signal=PASS, on_output=parts.append) == 0
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
    for reader in {*threading.enumerate()} - threads:
        reader.join()


def test_a_client_that_ends_by_itself_gives_its_own_code(tmp_path: Path) -> None:
    script = "kill -TERM $PPID; while ! [ -e gone ]; do sleep 0.01; done; exit 4"
    assert attend(script, tmp_path, pass_signal=("sh", "-c", "touch gone; false")) == (4, [])


def test_a_signal_to_our_whole_group_does_not_end_the_command_that_passes_it_on(tmp_path: Path) -> None:
    once = ("sh", "-c", f"[ -e once ] || {{ touch once; kill -TERM $$; }}; {PASS[2]}", "sh")
    assert attend(f"trap 'exit 9' TERM; kill -TERM $PPID; {FOREVER}", tmp_path, pass_signal=once) == (9, ["TERM"])


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert attend("kill -HUP $PPID; exit 2", tmp_path) == (2, [])
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_client_that_reads_the_terminal_is_in_our_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: terminal)
    attend("ps -o pgid= $$ >group", tmp_path)
    assert (int((tmp_path / "group").read_text()) == os.getpgrp()) is terminal
