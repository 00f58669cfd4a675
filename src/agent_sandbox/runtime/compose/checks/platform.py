"""Report the platform of the Docker engine, and warn if it is another machine, which has other files."""

from agent_sandbox.runtime.compose import platforms
from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.platforms import Platform, platform_of
from agent_sandbox.runtime.driver.result import CheckResult, ok, warn


def platform(host: EngineHost) -> CheckResult:
    """Recognise the platform by the endpoint that the command uses."""
    found = host.engine.ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    endpoint = found.out.strip() if found.code == 0 else ""
    kind = platform_of(platforms.here(), f"{endpoint} {host.info.get('OperatingSystem', '')}")
    if kind is Platform.REMOTE:
        what = f"the engine runs on another machine ({endpoint}) and mounts that machine's files, not this project's"
        return warn("platform", what, "unset DOCKER_HOST, or docker context use default")
    return ok("platform", f"{kind}, {endpoint}" if endpoint else kind)
