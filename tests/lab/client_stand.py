"""Real clients in a sandbox, and the servers that they use."""

import subprocess
import time
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_network
from pathlib import Path

from client_table import Client
from engine import proxy_image, run
from prepared import build_image
from real_stacks import LAB, PUBLIC, WORK, WORKER, Internet, Project

IMAGE = "agent-sandbox-test-clients"
BAZAAR = f"agent-sandbox-test-bazaar-{WORKER}"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NODE_USE_ENV_PROXY", "NODE_OPTIONS")
# Java has its proxy and its trust store in one variable: the latter stays.
WITHOUT_PROXY = f"""\
unset {" ".join(name for variable in VARIABLES for name in (variable, variable.lower()))}
export NO_PROXY='*' no_proxy='*' JAVA_TOOL_OPTIONS="$(echo "$JAVA_TOOL_OPTIONS" | sed 's/-D[a-z.]*roxy[^ ]*//g')"
"""
# A client that takes longer hangs; the exit codes of `timeout` show it.
CLIENT_SECONDS = 500
HUNG = frozenset({124, 137})
# Each run has a new home, so it cannot use what an earlier one downloaded.
FRESH = "export HOME=$(mktemp -d)\ncd $HOME\nexec 2>&1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How it went."""

    code: int
    said: str


def clients_image() -> str:
    """Build what holds all clients, on top of an agent's image."""
    return build_image(IMAGE, LAB / "clients", proxy_image("claude"))


def start_bazaar(internet: Internet, *, name: str = BAZAAR, public: str = PUBLIC) -> None:
    """Start the outside that the clients work with, on the same network as the stand-in."""
    remove_bazaar(name)
    run(
        "docker", "run", "--detach", f"--name={name}", f"--network={internet.name}", f"--network-alias={WORK}",
        f"--ip={ip_network(public)[3]}", f"--volume={internet.ca.parent}:/certificates:ro", f"--volume={LAB}:/lab:ro",
        "--workdir=/lab", "--user=root", "--env=PYTHONDONTWRITEBYTECODE=1", "--entrypoint=hypercorn", IMAGE,
        "--bind=0.0.0.0:443", "--insecure-bind=0.0.0.0:80", "--certfile=/certificates/leaf.pem",
        "--keyfile=/certificates/leaf.pem", "fake_registries:app",
    )  # fmt: skip


def remove_bazaar(name: str = BAZAAR) -> None:
    """Remove it, also one that an interrupted run left."""
    run("docker", "rm", "--force", name, check=False)


@cache
def agent_container(path: Path) -> str:
    """Return the id of the container that a project's agent is in."""
    return run("docker", "compose", "ps", "--quiet", "agent", cwd=path).stdout.strip()


def run_client(project: Project, client: Client, host: str, *, proxied: bool) -> Ran:
    """Run one client against one host; compose would be half of the time that most take."""
    script = FRESH + ("" if proxied else WITHOUT_PROXY) + client.run
    chosen = (f"--env=HOST={host}", f"--env=RUN=run{time.monotonic_ns()}", f"--user={client.user}")
    within = ("timeout", "--kill-after=5", str(CLIENT_SECONDS), "sh", "-ec", script)
    try:
        done = run(
            "docker", "exec", *chosen, agent_container(project.path), *within, check=False, seconds=2 * CLIENT_SECONDS
        )
    except subprocess.TimeoutExpired:
        # `timeout` has ended the client by then: the engine missed its exit, as it does once in thousands of runs.
        return run_client(project, client, host, proxied=proxied)
    return Ran(code=done.returncode, said=done.stdout + done.stderr)
