"""Measure what containers and volumes use."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.engines.compose.engine import Engine, json_lines
from agent_sandbox.engines.container import Container, Usage

# The engine measures everything, including other projects' volumes and containers.
SECONDS = 10.0
# As the engine writes sizes: `1.5GB` on disk, `1.5GiB` in memory.
SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKMGTP]?)(i?)B")
UNITS = ("", "K", "M", "G", "T", "P")


def usage(engine: Engine, found: Sequence[Container], *, disk: bool = True) -> Usage:
    """Ask for the memory of the running ones among these containers, and with `disk` for the size of all volumes."""
    running = [container.id for container in found if container.state == "running"]
    with ThreadPoolExecutor() as pool:
        memory = pool.submit(_memory, engine, running)
        sizes = volume_sizes(engine, seconds=SECONDS) if disk else None
        return Usage(disk=sizes, memory=memory.result())


def _memory(engine: Engine, ids: Sequence[str]) -> Mapping[str, int] | None:
    if not ids:
        return {}
    # About all containers: asked about some, the engine prints nothing at all if one of them has stopped since.
    done = engine.ask("stats", "--no-stream", "--no-trunc", "--format", "{{json .}}", timeout=SECONDS)
    if done.code:
        return None
    try:
        sizes = {row["ID"][:12]: parse_size(row["MemUsage"].split(" ")[0]) for row in json_lines(done.out)}
    except (NotJsonError, TypeError, LookupError):
        return None
    return {id_: size for id_, size in sizes.items() if id_ in ids}


def volume_sizes(engine: Engine, *, seconds: float, label: str = "") -> dict[str, int] | None:
    """Return the size of each volume with this label, or of all; None if the engine gives no answer in time."""
    done = engine.ask("system", "df", "--verbose", "--format", "{{json .Volumes}}", timeout=seconds)
    try:
        rows = read_json(done.out) if done.code == 0 else None
        return (
            None
            if rows is None
            else {
                row["Name"]: parse_size(row["Size"]) for row in rows if not label or label in row["Labels"].split(",")
            }
        )
    except (NotJsonError, TypeError, LookupError):
        return None


def parse_size(text: str) -> int:
    """Return the bytes of a size as the engine writes it; 0 if it is unknown.

    >>> parse_size("1.5GB"), parse_size("1.5MiB"), parse_size("0B"), parse_size("N/A")
    (1500000000, 1572864, 0, 0)
    """
    match = SIZE.fullmatch(text)
    if not match:
        return 0
    number, unit, binary = match.groups()
    base = 1024.0 if binary else 1000.0
    return round(float(number) * base ** UNITS.index(unit.upper()))
