"""setup_once.py: the script runs once in a container, is tried again after a failure, and always ends."""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bash_harness import IMAGE
from table_tests import each

RUNS = "agent-sandbox: running setup, once in this container"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A workspace and the path of the record, as in one container."""

    root: Path

    def start(self, *options: str, seconds: float = 20) -> subprocess.Popen[str]:
        """Start the program."""
        return subprocess.Popen(
            [sys.executable, "-I", IMAGE / "setup_once.py", "setup", *options],
            env={
                "PATH": os.environ["PATH"],
                "AGENT_SANDBOX_WORKSPACE": str(self.root),
                "AGENT_SANDBOX_SETUP_DONE": str(self.root / "done"),
                "AGENT_SANDBOX_SETUP_SECONDS": str(seconds),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def run(self, text: str | None, *options: str, seconds: float = 20) -> tuple[int, list[str]]:
        """Write the script and run the program; return its exit code and lines."""
        if text is not None:
            (self.root / "setup").write_text(text)
        with self.start(*options, seconds=seconds) as child:
            assert child.stdout is not None
            lines = child.stdout.read().splitlines()
        return child.returncode, [line.rpartition(" in ")[0] if ": done in " in line else line for line in lines]


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(root=tmp_path)


def test_a_successful_script_runs_again_only_if_changed_or_in_a_new_container(container: Container) -> None:
    done = "agent-sandbox: setup: done"
    assert container.run("echo 1; pwd") == (0, [RUNS, "1", str(container.root), done])
    assert container.run("echo 1; pwd") == (0, [])
    assert container.run("echo 2") == (0, [RUNS, "2", done])
    (container.root / "done").unlink()  # a new container
    assert container.run("echo 2") == (0, [RUNS, "2", done])


@each(
    ("text", "code", "why"),
    [
        ("exit 3", 3, "failed with exit code 3"),
        ("kill -KILL $$", 137, "ended by signal 9"),
        ("no-such-program 2>/dev/null", 127, "failed with exit code 127"),
    ],
)
def test_runs_a_failed_script_again(container: Container, text: str, code: int, why: str) -> None:
    for _ in range(2):
        assert container.run(text) == (code, [RUNS, f"agent-sandbox: error: {why}"])


def test_ends_a_hanging_script_and_its_child_processes(container: Container) -> None:
    code, lines = container.run("sleep 600 & echo $!; wait", seconds=0.5)
    assert (code, lines[-1]) == (124, "agent-sandbox: error: not finished after 0.00833333 minutes")
    state = subprocess.run(["ps", "-o", "stat=", "-p", lines[1]], capture_output=True, text=True, check=False).stdout
    assert state[:1] in {"", "Z"}


def test_an_attended_script_ends_when_its_stdin_closes(container: Container) -> None:
    (container.root / "setup").write_text("echo started; sleep 600")
    with container.start("--attended") as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert [child.stdout.readline() for _ in range(2)] == [f"{RUNS}\n", "started\n"]
        child.stdin.close()
        assert child.stdout.read() == "agent-sandbox: error: interrupted\n"
    assert child.returncode == 130


def test_does_not_wait_for_background_processes(container: Container) -> None:
    code, lines = container.run("(trap '' HUP; sleep 600) & echo $!")
    os.kill(int(lines[1]), 9)
    assert code == 0


@each(
    ("text", "most"),
    [
        ("yes | head -c 3000000; echo the end; exit 1", 1030),
        ("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1", 1030),
    ],
)
def test_truncates_long_output_and_shows_its_end_after_a_failure(container: Container, text: str, most: int) -> None:
    code, lines = container.run(text)
    assert (code, lines[-2]) == (1, "the end")
    assert "agent-sandbox: further output is not shown" in lines
    assert len(lines) < most
    assert max(map(len, lines)) <= 1000


def test_runs_only_the_trusted_content(container: Container) -> None:
    digest = hashlib.sha256(b"echo 1").hexdigest()
    assert container.run("echo 1", "--digest", digest)[0] == 0
    assert container.run("echo 2", "--digest", digest) == (78, ["agent-sandbox: error: changed after you trusted it"])


def test_reports_a_missing_script(container: Container) -> None:
    assert container.run(None) == (78, ["agent-sandbox: error: cannot be read: No such file or directory"])


def test_runs_an_executable_script_with_the_program_of_its_shebang(container: Container) -> None:
    text = f"#!{sys.executable} -I\nprint('python')\n"
    assert container.run(text)[0] != 0  # bash's
    (container.root / "setup").chmod(0o755)
    assert container.run(text)[1][1] == "python"


def test_a_second_start_waits_and_does_not_run_the_script_again(container: Container) -> None:
    (container.root / "setup").write_text("echo one >>ran; until [ -e go ]; do sleep 0.02; done")
    with container.start() as first:
        assert first.stdout
        first.stdout.readline()
        with container.start() as second:
            assert second.stdout
            assert second.stdout.readline() == "agent-sandbox: setup is already running: waiting for it\n"
            (container.root / "go").touch()
            assert second.stdout.read() == ""
        first.stdout.read()
    assert second.returncode == 0
    assert (container.root / "ran").read_text() == "one\n"
