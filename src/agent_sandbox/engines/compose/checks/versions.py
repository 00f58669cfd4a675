"""Check the engine's command, platform and version, and the two plugins that a stack needs."""

import shutil
from typing import Any

from agent_sandbox.engines.compose import platforms
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.version import Version, parse, shown
from agent_sandbox.engines.compose.platforms import Platform, platform_of
from agent_sandbox.engines.compose.remedies import Need
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.problems import UserError

# As for engines: the first version with `start_interval`.
OLDEST_COMPOSE: Version = (2, 24, 0)
# From this version on, the engine has no address on the stack's network.
ISOLATING_ENGINE: Version = (28, 0, 0)


def command(host: EngineHost) -> CheckResult:
    """Check that the engine's command exists."""
    client, program = host.versions.get("Client") or {}, host.engine.program
    return ok(program, f"{shutil.which(program)} {client.get('Version', '')}".strip())


def engine(host: EngineHost) -> CheckResult:
    """Check the Docker engine's version, and whether it is down or access is denied."""
    server: dict[str, Any] = host.versions.get("Server") or {}
    if not server:
        raise UserError([host.engine.problem(host.version_answer.err, doing="engine")])
    version, context = server.get("Version", ""), (host.versions.get("Client") or {}).get("Context", "")
    where = f"{version}{f', context {context}' if context else ''}"
    if parse(version) < host.engine.oldest:
        return fail(
            "engine", f"{where} is older than {shown(host.engine.oldest)}", host.engine.remedy(Need.NEWER, context)
        )
    return ok("engine", where)


def compose(host: EngineHost) -> CheckResult:
    """Check for compose v2."""
    found = host.engine.ask("compose", "version", "--short")
    version = parse(found.out)
    if found.code != 0 or not version:
        only = " (docker-compose, which is v1, is not enough)" if shutil.which("docker-compose") else ""
        return fail(
            "compose", f"the {host.engine.program} command has no compose v2{only}", host.engine.remedy(Need.COMPOSE)
        )
    if version < OLDEST_COMPOSE:
        return fail(
            "compose", f"{shown(version)} is older than {shown(OLDEST_COMPOSE)}", host.engine.remedy(Need.COMPOSE)
        )
    return ok("compose", found.out.strip())


def buildx(host: EngineHost) -> CheckResult:
    """Check for buildx."""
    found = host.engine.ask("buildx", "version")
    if found.code != 0 or not parse(found.out):
        return fail(
            "buildx", "the docker command has no buildx, which builds the images", host.engine.remedy(Need.BUILDX)
        )
    return ok("buildx", found.out.split()[1])


def isolation(host: EngineHost) -> CheckResult:
    """Check whether the Docker engine has an address on the stack's network."""
    version = parse((host.versions.get("Server") or {}).get("Version", ""))
    if version < ISOLATING_ENGINE:
        what = "this Docker engine has an address on the stack's network; only the firewall keeps the agent from it"
        return warn("isolation", what, f"Docker Engine {shown(ISOLATING_ENGINE)} or newer has no address there")
    return ok("isolation", "the engine has no address on the stack's network")


def seccomp(host: EngineHost) -> CheckResult:
    """Check that the Docker engine filters system calls."""
    options = (option.split(",") for option in host.info.get("SecurityOptions") or ())
    profile = next((rest[0].removeprefix("profile=") for name, *rest in options if name == "name=seccomp" and rest), "")
    if profile in {"", "unconfined"}:
        what = "this Docker engine does not filter system calls, so the agent can reach a vulnerability in any of them"
        hint = 'remove `"seccomp-profile": "unconfined"` from its daemon.json, or use a kernel with seccomp'
        return warn("seccomp", what, hint)
    return ok("seccomp", f"system calls are filtered by the profile {profile}")


def platform(host: EngineHost) -> CheckResult:
    """Recognise the platform by the endpoint that the command uses."""
    found = host.engine.ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    endpoint = found.out.strip() if found.code == 0 else ""
    kind = platform_of(platforms.here(), f"{endpoint} {host.info.get('OperatingSystem', '')}")
    if kind is Platform.REMOTE:
        what = f"the engine runs on another machine ({endpoint}) and mounts that machine's files, not this project's"
        return warn("platform", what, "unset DOCKER_HOST, or docker context use default")
    return ok("platform", f"{kind}, {endpoint}" if endpoint else kind)
