"""How long a person waits for a stack: `up` when all is built, a restart of the proxy, and commands on what runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.servers import LAB
from benchmarks.startup import seconds
from benchmarks.table import Row

sys.path.insert(0, str(LAB))

from engine import engine_answers, proxy_image  # found just above
from real_stacks import Projects, remove_network, start_internet  # found just above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from real_stacks import Project

INTERNET = "agent-sandbox-bench-internet"
ROUNDS = 3
# The goals of commands on a running stack that needs nothing, by their arguments.
COMMANDS = (
    (("status",), "350 ms"),
    (("proxy", "reload"), "250 ms"),
    (("exec", "true"), "200 ms"),
    (("up",), "1,000 ms"),
)
QUICK_ROUNDS = 9
URL = "https://api.anthropic.com/"
# In the agent: starting a command there takes as long as half a restart. It prints when each request passed. One that
# nobody answers is given up soon, or the next would wait for it.
WATCH = f"""
while :; do
    curl --fail --silent --output /dev/null --connect-timeout 0.1 --max-time 2 {URL} && date +%s.%N
    sleep 0.02
done
"""


def up(project: Project) -> float:
    """Return the seconds of a warm `agent-sandbox up`."""
    project.compose("down", "--timeout", "1")
    start = time.perf_counter()
    project.sandbox("up")
    return time.perf_counter() - start


def quick(project: Project, arguments: tuple[str, ...]) -> float:
    """Return the milliseconds of a command, as installed: from bytecode."""
    argv = (str(Path(sys.executable).with_name("agent-sandbox")), *arguments)
    written = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return 1000 * seconds(argv, project.path, written)


def restart(project: Project) -> float:
    """Return the seconds from `restart proxy` until the agent's next request passes, as the agent sees it."""
    argv = ("docker", "compose", "exec", "-T", "agent", "sh", "-c", WATCH)
    with subprocess.Popen(argv, cwd=project.path, stdout=subprocess.PIPE, text=True) as agent:
        times = map(float, agent.stdout or ())
        passed = [next(times)]
        start = time.time()
        project.compose("restart", "proxy")
        end = time.time()
        while passed[-1] < end:
            passed.append(next(times))
        agent.terminate()
    _, again = max(pairwise(passed), key=lambda pair: pair[1] - pair[0])  # in between, none passed
    return again - start


@contextmanager
def started_project(what: str) -> Iterator[Project | None]:
    """Start a project's stack and a stand-in for the internet; without an engine, print a line and yield None."""
    if not engine_answers():
        print(f"left out: {what}, since no Docker engine answers here", file=sys.stderr)
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.environ["XDG_STATE_HOME"] = str(folder / "home" / "state")  # what is trusted here ends with it
        internet = start_internet(folder, image=proxy_image(), name=INTERNET, public="198.51.100.64/26")
        projects = Projects(internet, folder)
        try:
            project = projects.make("app", "claude")
            project.sandbox("up")
            yield project
        finally:
            projects.remove()
            remove_network(INTERNET)


def rows() -> list[Row]:
    """Measure on a real engine; nothing where there is none."""
    with started_project("`up`, `restart proxy` and commands on a running stack") as project:
        if project is None:
            return []
        for arguments, _ in COMMANDS:
            quick(project, arguments)  # writes the bytecode and compiles the policy
        return [
            *(
                Row(
                    figure=f"`agent-sandbox {' '.join(arguments)}` on a running stack",
                    unit="ms",
                    ours=[quick(project, arguments) for _ in range(QUICK_ROUNDS)],
                    goal=goal,
                )
                for arguments, goal in COMMANDS
            ),
            Row(figure="`agent-sandbox up`, warm", unit="s", ours=[up(project) for _ in range(ROUNDS)], goal="5 s"),
            Row(
                figure="`docker compose restart proxy` until the agent works again",
                unit="s",
                ours=[restart(project) for _ in range(ROUNDS)],
                goal="1 s",
            ),
        ]
