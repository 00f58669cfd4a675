"""A table of Docker's error messages and what to do about them; the first match wins."""

import re
from collections.abc import Callable

from msgspec import Struct

from agent_sandbox.engines.compose.remedies import Need, remedy
from agent_sandbox.problems import Problem

LAST_LINES = 12
NO_QUOTA = "this Docker engine cannot limit disk space: its data is not on xfs with the mount option pquota"
WITHOUT_DISK = "remove `disk` from the limits in sandbox.yaml"


# How compose begins what the engine says about an image that it could not pull: with the service, or with the image.
PULL = r"(?:^|\n) *(?:Image )?(?P<name>[^\s]+) Error +"


class Fault(Struct, frozen=True, kw_only=True):
    """A pattern of Docker's output, which ignores case; the texts may use its named groups as `{name}`."""

    pattern: str
    where: str = "docker"
    what: str
    hint: str | Need

    def found_in(self, said: str) -> re.Match[str] | None:
        """Return the match in the output. The pattern is compiled only here, because most commands meet no fault."""
        return re.search(self.pattern, said, re.IGNORECASE)


def fault(pattern: str, *, what: str, hint: str | Need, where: str = "docker") -> Fault:
    """Return a row of the table; the pattern ignores case."""
    return Fault(pattern=pattern, where=where, what=what, hint=hint)


FAULTS: tuple[Fault, ...] = (
    fault(
        r"permission denied while trying to connect to the docker (?:daemon socket|API) at (?P<socket>[^:\s]+:[^:\s]+)",
        where="{socket}",
        what="no permission to use the Docker daemon",
        hint=Need.PERMISSION,
    ),
    fault(
        r"context \"(?P<name>[^\"]*)\"[^\n]*not found",
        what='the Docker context "{name}" does not exist',
        hint=Need.CONTEXT,
    ),
    fault(
        r"(?:cannot connect to the docker daemon|failed to connect to the docker API) at (?P<socket>\S+?)[.;]?\s",
        where="{socket}",
        what="the Docker daemon does not answer",
        hint=Need.RUNNING,
    ),
    fault(
        r"could not be found in this WSL",
        what="Docker Desktop is not connected to this WSL 2 distribution",
        hint=Need.COMMAND,
    ),
    fault(
        r"error during connect:.*?(?:dial (?P<dial>[^\n]*)|stderr=(?P<ssh>[^\n]*)|$)",
        what="cannot reach the Docker daemon: {dial}{ssh}",
        hint=Need.REACHABLE,
    ),
    fault(
        r"client version (?P<client>\S+) is too (?P<how>new|old)\W+.*?API version(?: is)? (?P<server>[\d.]+)",
        what="the docker command does not match the Docker daemon (API {client} is too {how} for {server})",
        hint="update the older of the two: see `docker version`",
    ),
    fault(
        r"(?:--storage-opt is supported only|quota size requested but no quota support)",
        where="limits.disk",
        what=NO_QUOTA,
        hint=WITHOUT_DISK,
    ),
    fault(
        r"no space left on device",
        where="disk",
        what="no space left on the disk that Docker uses",
        hint=Need.SPACE,
    ),
    fault(
        r"error setting rlimits?[^\n]*operation not permitted",
        what="this Docker engine cannot give a container as many open files as the stack needs",
        hint="raise the engine's limit (LimitNOFILE of docker.service, ulimit -Hn for a rootless one) to 16384 or more",
    ),
    fault(
        r"(?:bind for|listen tcp\d?) (?P<address>\S+?):? "
        r"(?:failed: port is already allocated|bind: address already in use)",
        where="{address}",
        what="the port is already in use",
        hint="stop the program that listens there, or publish another port in your compose file",
    ),
    fault(
        r"pool overlaps with other one on this address space",
        where=".devcontainer/docker-compose.yml",
        what="the stack's subnet is in use by another Docker network",
        hint="`agent-sandbox doctor` names it; `docker network prune` removes unused ones",
    ),
    fault(
        r"(?:all predefined address pools have been fully subnetted"  # Docker 27 and later, and before it
        r"|could not find an available, non-overlapping IPv[46] address pool)",
        what="Docker has no subnet left for another network; each running stack takes one",
        hint="stop stacks that you do not need: agent-sandbox ls, then agent-sandbox down --path NAME; `docker network "
        "prune` removes unused networks",
    ),
    fault(
        r"(?:buildx component is missing or broken|unknown flag: --secret|'buildx' is not a docker command)",
        what="the docker command has no buildx, which builds the images",
        hint=Need.BUILDX,
    ),
    fault(
        r"(?:'compose' is not a docker command|unknown command: docker compose|unknown shorthand flag: 'f' in -f"
        r"|unknown flag: --project-name)",
        what="the docker command has no compose v2",
        hint=Need.COMPOSE,
    ),
    fault(
        r"(?:pull access denied for|failed to resolve reference \"|no such image:) ?\S*"
        r"(?P<image>agent-sandbox/[^\s,\"]+)",
        where="{image}",
        what="the image does not exist",
        hint="agent-sandbox build",
    ),
    fault(
        rf"{PULL}[^\n]*(?:unauthorized|denied|authentication required|no basic auth)",
        where="{name}",
        what="the registry denied access to its image, or does not have it",
        hint="check `image` in sandbox.yaml; to sign in to the registry: docker login",
    ),
    fault(
        rf"{PULL}[^\n]*(?:manifest unknown|not found)",
        where="{name}",
        what="the registry does not have its image",
        hint="check the name and the tag of `image` in sandbox.yaml",
    ),
    fault(
        r"no matching manifest for (?P<platform>\S+)",
        where="beside",
        what="the image of a service does not support this machine's platform ({platform})",
        hint="choose another tag, or build the image with `build`; agent-sandbox status shows which one is missing",
    ),
    fault(
        rf"{PULL}[^\n]*toomanyrequests",
        where="{name}",
        what="the registry's limit on pulls is reached",
        hint="wait, or sign in with docker login: most registries then have a higher limit",
    ),
    fault(
        rf"{PULL}(?P<why>[^\n]*\S)",
        where="{name}",
        what="its image cannot be pulled: {why}",
        hint="the Docker engine pulls it, not the sandbox: is its registry reachable from the Docker host?",
    ),
    fault(
        r"bind source path does not exist: (?P<path>[^\n]+)",
        where="{path}",
        what="it was protected, but no longer exists",
        hint="restore it, or run agent-sandbox init, then agent-sandbox up",
    ),
    fault(
        r"(?P<file>\S*\.ya?ml): (?P<what>(?:yaml:|services\.|networks\.|volumes\.|no such file)[^\n]*)",
        where="{file}",
        what="{what}",
        hint="`agent-sandbox init` shows how the file differs from what it would write",
    ),
)


def last_lines(said: str, *, program: str = "docker") -> str:
    """Return the last lines of the command's output."""
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return f"{program} failed: " + ("\n  ".join(lines[-LAST_LINES:]) or "no output")


def known_fault(said: str, table: tuple[Fault, ...] = FAULTS) -> Problem | None:
    """Return the problem that matches the output `said`, or None."""
    for row in table:
        if match := row.found_in(said):
            groups = {name: value or "" for name, value in match.groupdict().items()}
            hint = remedy(row.hint, said) if isinstance(row.hint, Need) else row.hint
            return Problem(where=row.where.format(**groups), what=row.what.format(**groups).strip(" :"), hint=hint)
    return None


def problem_of(
    said: str, *, doing: str, table: tuple[Fault, ...] = FAULTS, otherwise: Callable[[str], str] = last_lines
) -> Problem:
    """Return the problem that matches the output `said`, or what `otherwise` makes of it."""
    unknown = Problem(where=doing, what=otherwise(said), hint="run agent-sandbox doctor to find the cause")
    return known_fault(said, table) or unknown
