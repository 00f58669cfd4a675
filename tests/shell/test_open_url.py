"""open-url: it asks the user's terminal to open a page, and says what to do where there is none."""

import base64
import os
import pty
import sys

import pytest

from bash_harness import Shell

URL = "https://auth.example.com/x?redirect_uri=http://localhost:1455"
# Run a program as agents do: without the terminal as its own, in another session, and on pipes.
DETACHED = (
    "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, capture_output=True, "
    "start_new_session=True).returncode)"
)


def asked(shell: Shell, *argv: str, browser: str) -> tuple[int, bytes]:
    """Return the exit code of a program on a terminal of its own, and what it writes there."""
    child, leader = pty.fork()
    if not child:
        os.execve(argv[0], argv, {"PATH": os.environ["PATH"], "HOME": str(shell.home), "BROWSER": browser})  # noqa: S606
    said = b""
    try:
        while part := os.read(leader, 1 << 16):
            said += part
    except OSError:  # Linux reports the end so
        pass
    os.close(leader)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.mark.parametrize("detached", [(), (sys.executable, "-I", "-c", DETACHED)])
def test_asks_the_terminal_of_the_session(shell: Shell, detached: tuple[str, ...]) -> None:
    program = f"{shell.image}/open-url"
    code, said = asked(shell, *detached, program, URL, browser="/usr/local/lib/agent-sandbox/open-url")
    assert (code, said) == (0, b"\x1b]8052;" + base64.b64encode(URL.encode()) + b"\a")


@pytest.mark.parametrize("url", ["http://localhost:5173/", "file:///etc/passwd", "README.md", ""])
def test_asks_for_nothing_but_web_pages(shell: Shell, url: str) -> None:
    code, said = asked(shell, f"{shell.image}/open-url", url, browser="/usr/local/lib/agent-sandbox/open-url")
    assert (code, said) == (3, f"agent-sandbox: nothing here can open {url}; open it on the host machine\r\n".encode())


def test_says_what_to_do_on_another_terminal_and_without_one(shell: Shell) -> None:
    said = f"agent-sandbox: nothing here can open {URL}; open it on the host machine\n"
    assert asked(shell, f"{shell.image}/open-url", URL, browser="w3m") == (3, said.replace("\n", "\r\n").encode())
    done = shell.run("setsid", "--wait", f"{shell.image}/open-url", URL, check=False)
    assert (done.returncode, done.stderr) == (3, said)
