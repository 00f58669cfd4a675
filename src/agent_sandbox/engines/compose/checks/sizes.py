"""Report the disk space of the engine, the sizes of a project's volumes and images, and how to empty them."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.plan import PROJECT_LABEL
from agent_sandbox.engines.compose.remedies import Need
from agent_sandbox.engines.compose.usage import volume_sizes
from agent_sandbox.engines.result import CheckResult, Status, fail, ok, warn
from agent_sandbox.project.installed import own_images
from agent_sandbox.project.project import Project
from agent_sandbox.size_text import size_text

# The engine measures all its volumes, including other projects'; it has no option to select some.
SECONDS = 5.0
CACHE = "home-cache"
LISTED = 5
GIB = 1 << 30
NEEDED = 2 * GIB  # the images of one agent, and the build cache
COMFORTABLE = 6 * GIB


def sizes(host: EngineHost, project: Project) -> CheckResult:
    """Add up volumes and images; give up on an engine that takes longer than `SECONDS`."""
    volumes = _volumes(host, project.name)
    images = _images(host, project)
    parts = [_sum("volumes", volumes), _sum("images, which share layers", images)]
    program = host.engine.program
    hints = [f"agent-sandbox down && {program} volume rm {project.name}_{CACHE} empties the cache"] if volumes else []
    if volumes is None:
        parts[0] = f"size of the volumes unknown: the Docker engine gave no answer within {SECONDS:g} seconds"
        hints = [f"{program} system df -v shows it"]
    hints.append("agent-sandbox destroy removes all volumes, with --images also the images")
    return CheckResult(
        name="sizes", status=Status.OK, what="; ".join(filter(None, parts)) or "nothing yet", hint="; ".join(hints)
    )


def _volumes(host: EngineHost, project: str) -> dict[str, int] | None:
    """Return the size of each volume by its name in the compose file; None if the engine does not answer."""
    found = volume_sizes(host.engine, seconds=SECONDS, label=f"{PROJECT_LABEL}={project}")
    return None if found is None else {name.removeprefix(f"{project}_"): size for name, size in found.items()}


def _images(host: EngineHost, project: Project) -> dict[str, int]:
    # Missing images are on stderr, and the doctor reports them elsewhere.
    wanted, found = own_images(project), dict[str, int]()
    lines = host.engine.ask("image", "inspect", "--format", "{{.Size}} {{json .RepoTags}}", *wanted).out
    for line in lines.splitlines():
        number, _, tags = line.partition(" ")
        found |= {tag: int(number) for tag in read_json(tags) or () if tag in wanted}
    return found


def _sum(title: str, found: Mapping[str, int] | None) -> str:
    if not found:
        return ""
    listed = sorted(found.items(), key=lambda item: -item[1])
    names = [f"{name} {size_text(number)}" for name, number in listed[:LISTED]]
    others = [f"{len(listed) - LISTED} more"] if len(listed) > LISTED else []
    return f"{size_text(sum(found.values()))} in {title} ({', '.join((*names, *others))})"


def disk(host: EngineHost) -> CheckResult:
    """Check the disk where the Docker engine stores images, if it is on this system."""
    program = host.engine.program
    root = Path(host.info.get("DockerRootDir", ""))
    if not (host.is_local and root.is_dir()):
        return ok("disk", f"the Docker engine's disk is not on this system; `{program} system df` shows what is used")
    free = shutil.disk_usage(root).free
    what = f"{free / GIB:.1f} GiB free for images in {root}"
    hint = host.engine.remedy(Need.SPACE)
    if free < NEEDED:
        return fail("disk", what, hint)
    return warn("disk", what, hint) if free < COMFORTABLE else ok("disk", what)
