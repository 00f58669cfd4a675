"""Check the docker command, the Docker engine, and the two plugins that a stack needs."""

import shutil
from typing import Any

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.compose.engine import ask
from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.result import CheckResult, fail, ok, warn
from agent_sandbox.runtime.doctor.version import Version, parse, shown

# The first versions with `start_interval` for health checks; without it, a stack takes minutes to start.
OLDEST_ENGINE: Version = (25, 0, 0)
OLDEST_COMPOSE: Version = (2, 24, 0)
# From this version on, the engine has no address on the stack's network.
ISOLATING_ENGINE: Version = (28, 0, 0)


def docker(machine: Machine) -> CheckResult:
    """Check that the docker command exists."""
    client = machine.versions.get("Client") or {}
    return ok("docker", f"{shutil.which('docker')} {client.get('Version', '')}".strip())


def engine(machine: Machine) -> CheckResult:
    """Check the Docker engine's version, and whether it is down or access is denied."""
    server: dict[str, Any] = machine.versions.get("Server") or {}
    if not server:
        problem = _why_not(machine)
        return fail("engine", problem[0], problem[1])
    version, context = server.get("Version", ""), (machine.versions.get("Client") or {}).get("Context", "")
    where = f"{version}{f', context {context}' if context else ''}"
    if parse(version) < OLDEST_ENGINE:
        return fail("engine", f"{where} is too old", f"update Docker Engine to {shown(OLDEST_ENGINE)} or newer")
    return ok("engine", where)


def compose(machine: Machine) -> CheckResult:  # noqa: ARG001 - every check takes the machine
    """Check for compose v2."""
    found = ask("compose", "version", "--short")
    version = parse(found.out)
    if found.code != 0 or not version:
        only = " (docker-compose, which is v1, is not enough)" if shutil.which("docker-compose") else ""
        hint = "install the plugin (Debian and Ubuntu: docker-compose-v2 or docker-compose-plugin)"
        return fail("compose", f"the docker command has no compose v2{only}", hint)
    if version < OLDEST_COMPOSE:
        return fail("compose", f"{shown(version)} is too old", f"update it to {shown(OLDEST_COMPOSE)} or newer")
    return ok("compose", found.out.strip())


def buildx(machine: Machine) -> CheckResult:  # noqa: ARG001 - every check takes the machine
    """Check for buildx."""
    found = ask("buildx", "version")
    if found.code != 0 or not parse(found.out):
        hint = "install the plugin (Debian and Ubuntu: docker-buildx or docker-buildx-plugin)"
        return fail("buildx", "the docker command has no buildx, which builds the images", hint)
    return ok("buildx", found.out.split()[1])


def isolation(machine: Machine) -> CheckResult:
    """Check whether the Docker engine has an address on the stack's network."""
    version = parse((machine.versions.get("Server") or {}).get("Version", ""))
    if version < ISOLATING_ENGINE:
        what = "this Docker engine has an address on the stack's network; only the firewall keeps the agent from it"
        return warn("isolation", what, f"Docker Engine {shown(ISOLATING_ENGINE)} or newer has no address there")
    return ok("isolation", "the engine has no address on the stack's network")


def seccomp(machine: Machine) -> CheckResult:
    """Check that the Docker engine filters system calls."""
    options = (option.split(",") for option in machine.info.get("SecurityOptions") or ())
    profile = next((rest[0].removeprefix("profile=") for name, *rest in options if name == "name=seccomp" and rest), "")
    if profile in {"", "unconfined"}:
        what = "this Docker engine does not filter system calls, so the agent can reach a vulnerability in any of them"
        hint = 'remove `"seccomp-profile": "unconfined"` from its daemon.json, or use a kernel with seccomp'
        return warn("seccomp", what, hint)
    return ok("seccomp", f"system calls are filtered by the profile {profile}")


def _why_not(machine: Machine) -> tuple[str, str]:
    try:
        machine.info  # noqa: B018 - asked for what it raises
    except UserError as error:
        return str(error.problems[0].what), error.problems[0].hint
    return "the engine does not answer", "run agent-sandbox doctor again; see `docker info`"
