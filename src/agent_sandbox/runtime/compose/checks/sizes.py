"""Report the sizes of a project's volumes and images, and how to empty them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_sandbox.backends.compose.plan import PROJECT_LABEL
from agent_sandbox.backends.project import Project
from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.driver.result import CheckResult, Status
from agent_sandbox.runtime.project.installed import own_images

# The engine measures all its volumes, including other projects'; it has no option to select some.
SECONDS = 5.0
CACHE = "home-cache"
LISTED = 5
# As the engine writes sizes: `1.5GB`.
SIZE = re.compile(r"(\d+(?:\.\d+)?)([kMGTP]?)B")
POWERS = {unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P"))}


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
    done = host.engine.ask("system", "df", "--verbose", "--format", "{{json .Volumes}}", timeout=SECONDS)
    try:
        return dict(_own(read_json(done.out), project)) if done.code == 0 else None
    except (NotJsonError, TypeError, LookupError):
        return None


def _own(rows: list[Mapping[str, Any]], project: str) -> Iterator[tuple[str, int]]:
    for row in rows:
        if f"{PROJECT_LABEL}={project}" in row["Labels"].split(","):
            yield row["Name"].removeprefix(f"{project}_"), parse_size(row["Size"])


def _images(host: EngineHost, project: Project) -> dict[str, int]:
    # Missing images are on stderr, and the doctor reports them elsewhere.
    lines = host.engine.ask("image", "inspect", "--format", "{{.Size}} {{json .RepoTags}}", *own_images(project)).out
    wanted, found = set(own_images(project)), dict[str, int]()
    for line in lines.splitlines():
        number, _, tags = line.partition(" ")
        found |= {tag: int(number) for tag in read_json(tags) or () if tag in wanted}
    return found


def parse_size(text: str) -> int:
    """Return the bytes of a size as the engine writes it; 0 if it is unknown.

    >>> parse_size("1.5GB"), parse_size("0B"), parse_size("N/A")
    (1500000000, 0, 0)
    """
    match = SIZE.fullmatch(text)
    return round(float(match[1]) * POWERS[match[2]]) if match else 0


def size_text(number: int) -> str:
    """Return a size with three digits.

    >>> size_text(0), size_text(999_999), size_text(1_234_000_000)
    ('0 B', '1 MB', '1.23 GB')
    """
    amount, units = float(number), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while amount >= 999.5 and (larger := next(units, "")):
        amount, unit = amount / 1000, larger
    return f"{float(f'{amount:.3g}'):g} {unit}"


def _sum(title: str, found: Mapping[str, int] | None) -> str:
    if not found:
        return ""
    listed = sorted(found.items(), key=lambda item: -item[1])
    names = [f"{name} {size_text(number)}" for name, number in listed[:LISTED]]
    others = [f"{len(listed) - LISTED} more"] if len(listed) > LISTED else []
    return f"{size_text(sum(found.values()))} in {title} ({', '.join((*names, *others))})"
