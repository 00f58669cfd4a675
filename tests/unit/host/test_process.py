import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.host import process
from agent_sandbox.host.process import LONGEST_LINE, TOO_MUCH, Finished, capture, follow, uninterrupted
from agent_sandbox.problems import UserError
from table_tests import each


def test_capture_keeps_both_outputs_and_the_exit_code() -> None:
    argv = ("sh", "-c", "echo out; echo err >&2; exit 3")
    assert Finished(argv=argv, code=3, out="out\n", err="err\n") == capture(argv)


def test_capture_gives_the_child_no_stdin() -> None:
    assert capture(("cat",)).out == ""


def test_capture_feeds_large_stdin_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    assert capture(("wc", "-c"), stdin=b"x" * 1_000_000).out.strip() == "1000000"


def test_capture_accepts_a_child_that_does_not_read_its_stdin(tmp_path: Path) -> None:
    assert capture(("true",), cwd=tmp_path, stdin=b"x" * 1_000_000).code == 0


def test_capture_runs_in_the_given_directory(tmp_path: Path) -> None:
    assert f"{tmp_path}\n" == capture(("pwd",), cwd=tmp_path).out


def test_capture_ends_a_slow_child_and_reports_a_timeout() -> None:
    got = capture(("sleep", "30"), timeout=0.05)
    assert Finished(argv=("sleep", "30"), code=124, out="", err="no answer within 0.05 seconds") == got


def test_capture_ends_a_child_that_prints_too_much() -> None:
    for argv in (("yes",), ("sh", "-c", "yes >&2")):
        assert capture(argv, most=100_000) == Finished(
            argv=argv, code=125, out="", err="more than 100000 bytes of output"
        )


def test_capture_returns_output_of_exactly_the_limit() -> None:
    assert capture(("head", "-c", "100000", "/dev/zero"), most=100_000).out == "\0" * 100_000


def test_capture_does_not_wait_for_a_background_process_that_keeps_the_output_open() -> None:
    got = capture(("sh", "-c", "sleep 60 & echo $!; exit 3"), timeout=20)
    os.kill(int(got.out), signal.SIGKILL)
    assert got.code == 3


def test_capture_waits_until_the_timeout_for_a_child_that_closed_its_output() -> None:
    assert capture(("sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 3")).code == 3
    assert capture(("sh", "-c", "exec >&- 2>&-; sleep 60"), timeout=0.2).code == 124


def test_capture_replaces_bytes_that_are_not_utf8() -> None:
    assert capture(("printf", r"\377\n")).out == "�\n"


def test_follow_passes_on_each_line_of_both_outputs() -> None:
    lines: list[str] = []
    got = follow(("sh", "-c", "echo one; echo two >&2; exit 4"), on_line=lines.append)
    assert lines == ["one", "two"]
    assert (got.code, got.out) == (4, "one\ntwo")


def test_follow_feeds_large_stdin() -> None:
    assert follow(("wc", "-c"), on_line=lambda _: None, stdin=b"x" * 1_000_000).out.strip() == "1000000"


def test_follow_keeps_only_the_last_lines() -> None:
    got = follow(("seq", "1000"), on_line=lambda _: None)
    assert [str(n) for n in range(801, 1001)] == got.out.split("\n")


def test_an_interrupt_ends_the_child_and_the_processes_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! $$ > {pids}; echo ready; wait"
    with pytest.raises(KeyboardInterrupt):
        follow(("sh", "-c", script), on_line=_interrupt)
    for pid in map(int, pids.read_text().split()):
        assert _gone(pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_interrupt_capture_like_ctrl_c(number: signal.Signals, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    script = f"echo $$ > {tmp_path}/pid; kill -{number.value} $PPID; exec sleep 60"
    with pytest.raises(KeyboardInterrupt, match=number.name):
        capture(("sh", "-c", script))
    assert before == signal.getsignal(number)
    assert _gone(int((tmp_path / "pid").read_text()))


def test_a_child_that_ignores_ctrl_c_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 0.05)
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(("sh", "-c", "trap '' INT TERM; echo $$; sleep 60"), on_line=interrupt)
    assert _gone(*pids)


def test_a_second_ctrl_c_kills_a_child_that_ignores_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 3600.0)
    pids: list[int] = []

    def twice(line: str) -> None:
        pids.append(int(line))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(("sh", "-c", "trap '' INT TERM; echo $$; sleep 3600"), on_line=twice)
    assert _gone(*pids)


def test_uninterrupted_delays_ctrl_c_until_the_block_ends() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012 - the subject of this test
        signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == ["all"]


def _interrupt(_line: str) -> None:
    raise KeyboardInterrupt


def _gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True
        time.sleep(0.01)
    return False


def test_follow_reports_a_full_disk_before_it_starts_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(**_: object) -> object:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(
        UserError, match=r"^disk: cannot write a temporary file: No space left on device; free some space"
    ):
        follow(("touch", str(tmp_path / "ran")), on_line=lambda _: None)
    assert not (tmp_path / "ran").exists()


def test_the_child_gets_our_environment_and_the_added_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    got = follow(("sh", "-c", "echo $OURS $ADDED"), on_line=lambda _: None, environment={"ADDED": "2"})
    assert got.out == "1 2"


def test_become_replaces_our_process_with_the_program(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from agent_sandbox.host.process import become;"
        f"print('before'); become(('sh', '-c', 'pwd; exit 7'), cwd=Path({str(tmp_path)!r}))"
    )
    got = capture((sys.executable, "-c", script))
    assert (got.code, got.out) == (7, f"before\n{tmp_path}\n")


def test_an_interrupt_during_the_start_of_the_child_ends_the_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make = subprocess.Popen

    def interrupted(*args: Any, **kwargs: Any) -> subprocess.Popen[str]:  # noqa: ANN401 - whatever Popen takes
        child: subprocess.Popen[str] = make(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGINT)
        (tmp_path / "pid").write_text(str(child.pid))
        return child

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        capture(("sleep", "60"))
    assert _gone(int((tmp_path / "pid").read_text()))


def test_follow_splits_lines_only_at_line_feeds() -> None:
    lines: list[str] = []
    follow(("printf", r"a\rb\vc\302\205d\342\200\250e\r\n"), on_line=lines.append)
    assert lines == ["a\rb\vc\x85d\u2028e"]


def test_watch_keeps_the_stdin_of_the_child_open() -> None:
    lines: list[str] = []
    script = "import select, sys; print(bool(select.select([sys.stdin], [], [], 0.05)[0]))"
    got = process.watch((sys.executable, "-c", script), on_line=lines.append)
    assert (lines, got.code) == (["False"], 0)


def test_watch_can_send_lines_to_the_stdin_of_the_child() -> None:
    lines: list[str] = []
    inputs: list[process.Input] = []
    script = "print(input()); print(input())"

    def begin(stdin: process.Input) -> None:
        inputs.append(stdin)
        stdin.say("one")
        stdin.say("two")

    got = process.watch((sys.executable, "-c", script), on_line=lines.append, on_start=begin)
    assert (lines, got.code) == (["one", "two"], 0)
    with pytest.raises(BrokenPipeError):
        inputs[0].say("three")


def test_capture_works_in_another_thread() -> None:
    found: list[process.Finished] = []
    thread = threading.Thread(target=lambda: found.append(process.capture((sys.executable, "-c", "print(1)"))))
    thread.start()
    thread.join()
    assert found[0].out == "1\n"


def test_watch_can_close_the_stdin_of_the_child() -> None:
    script = "import sys; print(sys.stdin.read() == '')"
    got = process.watch((sys.executable, "-c", script), on_line=lambda _: None, on_start=process.Input.close)
    assert (got.out, got.code) == ("True", 0)


def test_capture_can_read_stdin_from_a_file_and_write_stdout_to_a_file(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 200_000)
    with source.open("rb") as stdin, target.open("w+b") as into:
        done = capture(("sh", "-c", "echo said >&2; cat"), stdin=stdin, into=into)
    assert done == Finished(argv=done.argv, code=0, out="", err="said\n")
    assert target.read_bytes() == source.read_bytes()


def test_capture_limits_stdout_to_a_file_and_stderr(tmp_path: Path) -> None:
    for script in ("yes", "yes >&2"):
        with (tmp_path / "target").open("w+b") as into:
            assert capture(("sh", "-c", script), into=into, most=2_000_000).code == TOO_MUCH
        assert (tmp_path / "target").stat().st_size <= 2_000_000


def test_output_for_which_the_disk_has_no_room_ends_the_program_with_a_hint() -> None:
    pattern = "^disk: cannot write a temporary file: No space left on device; free some space"
    with pytest.raises(UserError, match=pattern), Path("/dev/full").open("wb") as full:
        capture(("yes",), into=full)


@each(
    ("out", "err", "line"),
    [
        ("a\nb\n", "", "b"),
        ("a\n", "c\n  d \n\n", "d"),
        ("a\n", " \n", "a"),
        ("", "", ""),
        ("", f"x\n{'y' * 999}\n", "y" * LONGEST_LINE),
    ],
)
def test_the_last_line_is_one_and_short(out: str, err: str, line: str) -> None:
    assert Finished(argv=(), code=1, out=out, err=err).last_line == line


def test_an_ignored_signal_does_not_interrupt_capture() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert capture(("sh", "-c", "kill -HUP $PPID; echo done")).out == "done\n"
    finally:
        signal.signal(signal.SIGHUP, before)
