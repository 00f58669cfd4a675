"""Run commands, ours among them, and the engine that they use. Needs nothing of the product's code.

So it also works in the proxy image, which has only a part of that code, and where benchmarks run.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]


class CommandError(AssertionError):
    """A command that should have worked did not: holds all that it printed."""


def run(
    *argv: str | Path,
    cwd: Path | None = None,
    check: bool = True,
    env: Mapping[str, str] = MappingProxyType({}),
    piped: str = "",
    seconds: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, with this on its stdin, and show all it printed when it fails."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        input=piped,
        timeout=seconds,
    )
    if check and done.returncode != 0:
        raise CommandError(f"{argv} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def agent_sandbox(
    *argv: str | Path,
    cwd: Path | None = None,
    check: bool = True,
    env: Mapping[str, str] = MappingProxyType({}),
    piped: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run our own command line."""
    return run(sys.executable, "-P", "-m", "agent_sandbox", *argv, cwd=cwd, check=check, env=env, piped=piped)


def engine_answers() -> bool:
    """Return whether a Docker engine is available."""
    try:
        return run("docker", "info", check=False).returncode == 0
    except FileNotFoundError:
        return False


def proxy_image(name: str = "proxy") -> str:
    """Build all images that are missing, as a user does; return the name of the proxy's, or of another one."""
    with (Path(gettempdir()) / "agent-sandbox-test-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may build the same ones
        agent_sandbox("build", "claude", "copilot")
    version = agent_sandbox("--version").stdout.split()[-1]
    return f"agent-sandbox/{name}:{version}"
