"""The real command line on a pseudo-terminal."""

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import agent_sandbox

# Not the script: a test run with other versions has the package on its path alone.
PROGRAM = (sys.executable, "-P", "-m", "agent_sandbox")
SOURCES = str(Path(agent_sandbox.__file__).parents[1])


def on_terminal(*argv: str, folder: Path, columns: int, **environ: str) -> str:
    """Return the output of a command on a terminal of this width."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TZ") if name in os.environ}
    with subprocess.Popen(
        (*PROGRAM, *argv),
        cwd=folder,
        env={**inherited, "TERM": "xterm-256color", "PYTHONPATH": SOURCES, "XDG_STATE_HOME": str(folder), **environ},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ):
        os.close(follower)
        shown = b"".join(iter(lambda: _read(leader), b""))
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 4096)
    except OSError:  # Linux reports the end so
        return b""
