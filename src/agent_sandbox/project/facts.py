"""Return the facts in the record of a stack: what its containers are given.

They come from the stack that `init` builds. For a stack file without a record, they are read from it: then whatever
is missing or in another notation is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from agent_sandbox.project.documents import mapping
from agent_sandbox.project.render.paths import DOTENV
from agent_sandbox.stack.containers import NOTHING, PROTECTED, WORKSPACE, is_beside
from agent_sandbox.stack.limits import LIMITS, limit_texts
from agent_sandbox.stack.model import Mount, Stack
from agent_sandbox.stack.naming import BESIDE
from agent_sandbox.stack.recorded import Access, Facts, MountKind, ServiceBeside, is_inside

MOST_DIGITS = 10
# Its mask is also a protection: it names the stack's files.
MASKED_DOTENV = f"{WORKSPACE}/{DOTENV}"

type Document = Mapping[str, Any]


def facts_of(stack: Stack) -> Facts:
    """Return the facts of a stack."""
    agent = stack.service("agent")
    beside = (service for service in stack.services if is_beside(service.name))
    return replace(
        _given(agent.mounts, stack.service("proxy").mounts, agent.environment),
        images=stack.images,
        limits=limit_texts(agent.limits),
        volumes=stack.sizes,
        subnets=tuple(network.subnet for network in stack.networks if network.internal),
        beside={service.name: ServiceBeside(image=service.image, user=service.user) for service in beside},
    )


def facts_in(document: Document) -> Facts:
    """Return the facts in a parsed stack file, which doubles each `$`."""
    services = {name: mapping(service) for name, service in mapping(document.get("services")).items()}
    agent, proxy = services.get("agent", {}), services.get("proxy", {})
    environment = {name: _plain(value) for name, value in mapping(agent.get("environment")).items()}
    images = (service.get("image") for service in services.values())
    return replace(
        _given(_mounts(agent), _mounts(proxy), environment),
        images=tuple(dict.fromkeys(image for image in images if isinstance(image, str))),
        limits=_limits(agent),
        volumes=dict(_sizes(mapping(document.get("volumes")))),
        subnets=tuple(_subnets(mapping(document.get("networks")))),
        beside={
            name: ServiceBeside(image=str(one.get("image", "")), user=str(one.get("user") or ""))
            for name, one in services.items()
            if is_beside(name) and one
        },
    )


def _given(agent: Sequence[Mount], proxy: Sequence[Mount], environment: Mapping[str, str]) -> Facts:
    masks = [mount.target for mount in agent if mount.source == NOTHING]
    read_only = (mount for mount in agent if mount.read_only)
    paths = [PurePosixPath(one.target) for one in read_only if one.source != NOTHING or one.target == MASKED_DOTENV]
    listed = environment.get(PROTECTED, "").split("\n")
    inside = (str(path.relative_to(WORKSPACE)) for path in paths if path.is_relative_to(WORKSPACE))
    outside = (str(path) for path in paths if f"{Access.READ} {path}" in listed)
    return Facts(
        protected=frozenset((*filter(is_inside, inside), *outside)),
        masked=frozenset(target.removeprefix(f"{WORKSPACE}/") for target in masks),
        in_volume=any(mount.target == WORKSPACE and mount.kind is MountKind.VOLUME for mount in agent),
        layers=frozenset(mount.source for mount in proxy if mount.source.startswith("/")),
        environment={name: value for name, value in environment.items() if name != PROTECTED},
    )


def _plain(value: Any) -> str:  # noqa: ANN401 - whatever stands there
    return str(value).replace("$$", "$")


def _mounts(service: Document) -> list[Mount]:
    """Return the mounts of a service, or none if one is in another notation: it could cover any of the others."""
    volumes = service.get("volumes")
    found = [mapping(one) for one in volumes] if isinstance(volumes, list) else []
    if not all(isinstance(one.get("target"), str) for one in found):
        return []
    return [
        Mount(
            kind=MountKind.VOLUME if one.get("type") == MountKind.VOLUME else MountKind.BIND,
            source=_plain(one.get("source", "")),
            target=_plain(one["target"]),
            read_only=one.get("read_only") == "true",
        )
        for one in found
    ]


def _limits(agent: Document) -> dict[str, str]:
    said = {"memory": agent.get("mem_limit"), "pids": agent.get("pids_limit")}
    if disk := mapping(agent.get("storage_opt")).get("size"):
        said["disk"] = disk
    quota, period = (_whole(agent.get(key)) for key in ("cpu_quota", "cpu_period"))
    if quota and period:
        said["cpus"] = quota / period
    read = {name: LIMITS[name].read(str(value)) for name, value in said.items()}
    return {name: LIMITS[name].shown(value) for name, value in read.items() if value is not None}


def _whole(value: Any) -> int:  # noqa: ANN401 - as above
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < MOST_DIGITS else 0


def _sizes(volumes: Document) -> Iterator[tuple[str, str]]:
    """Yield the names and the sizes of the volumes with a limit of disk space."""
    for volume in map(mapping, volumes.values()):
        size = mapping(volume.get("driver_opts")).get("size")
        if size is not None:
            yield str(volume.get("name")), str(size)


def _subnets(networks: Document) -> Iterator[str]:
    """Yield the subnets of the internal networks."""
    for key in ("sandbox", BESIDE):
        try:
            yield str(IPv4Network(networks[key]["ipam"]["config"][0]["subnet"]))
        except (KeyError, TypeError, IndexError, ValueError):
            continue
