"""Checks of the docker command, the engine, and the two plugins that a stack needs."""

import shutil
from typing import Any

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.compose.engine import ask
from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.result import CheckResult, fail, ok, warn
from agent_sandbox.runtime.doctor.version import Version, parse, shown

# Both learned `start_interval` of health checks, without which a stack takes minutes to start.
OLDEST_ENGINE: Version = (25, 0, 0)
OLDEST_COMPOSE: Version = (2, 24, 0)
# The engine's own address on the stack's network: from here on nothing listens there.
ISOLATING_ENGINE: Version = (28, 0, 0)


def docker(machine: Machine) -> CheckResult:
    """Look for the docker command."""
    client = machine.versions.get("Client") or {}
    return ok("docker", f"{shutil.which('docker')} {client.get('Version', '')}".strip())


def engine(machine: Machine) -> CheckResult:
    """Ask the engine for its version, and tell a daemon that is down from one that may not be asked."""
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
    """Look for compose v2."""
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
    """Look for buildx."""
    found = ask("buildx", "version")
    if found.code != 0 or not parse(found.out):
        hint = "install the plugin (Debian and Ubuntu: docker-buildx or docker-buildx-plugin)"
        return fail("buildx", "the docker command has no buildx, which builds the images", hint)
    return ok("buildx", found.out.split()[1])


def isolation(machine: Machine) -> CheckResult:
    """Say whether the engine keeps its own address off the stack's network."""
    version = parse((machine.versions.get("Server") or {}).get("Version", ""))
    if version < ISOLATING_ENGINE:
        what = "this engine has an address on the stack's network: the firewall alone keeps the agent from it"
        return warn("isolation", what, f"Docker Engine {shown(ISOLATING_ENGINE)} or newer has none there")
    return ok("isolation", "the engine has no address on the stack's network")


def seccomp(machine: Machine) -> CheckResult:
    """Say whether the engine keeps its containers from system calls that lead into the depths of the kernel."""
    options = (option.split(",") for option in machine.info.get("SecurityOptions") or ())
    profile = next((rest[0].removeprefix("profile=") for name, *rest in options if name == "name=seccomp" and rest), "")
    if profile in {"", "unconfined"}:
        what = "this engine filters no system calls: a hole in any of the kernel's is within the agent's reach"
        hint = 'take `"seccomp-profile": "unconfined"` out of its daemon.json, or use one whose kernel has seccomp'
        return warn("seccomp", what, hint)
    return ok("seccomp", f"system calls are filtered by the profile {profile}")


def _why_not(machine: Machine) -> tuple[str, str]:
    try:
        machine.info  # noqa: B018 - asked for what it raises
    except UserError as error:
        return str(error.problems[0].what), error.problems[0].hint
    return "the engine does not answer", "agent-sandbox doctor again; see `docker info`"
