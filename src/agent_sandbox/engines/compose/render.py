"""Render a stack as a Compose document and as a commented docker-compose.yml."""

from collections.abc import Mapping
from typing import Any

from agent_sandbox.agents.together import Agents
from agent_sandbox.images import OURS
from agent_sandbox.project.render.formats.faithful import load_yaml, require_same
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.project.render.record import DOTENV_KEY, PINS_KEY, PROJECT_FILE_KEY, SETTINGS_KEY, agents_record
from agent_sandbox.stack.engine import STACK_FILE
from agent_sandbox.stack.limits import NO_LIMIT, PART_OF_THE_USERS, kept, size
from agent_sandbox.stack.model import Mount, Network, Service, Stack, Volume
from agent_sandbox.stack.naming import RECORD
from agent_sandbox.stack.recorded import MountKind
from agent_sandbox.stack.workspace import Workspace

CPU_PERIOD = 100_000  # microseconds
LOGGING = {"driver": "local", "options": {"max-size": "10m", "max-file": "3"}}

type Document = dict[str, Any]


def render_stack_file(templates: Templates, stack: Stack, agents: Agents, workspace: Workspace) -> str:
    """Return the text of docker-compose.yml, parsed back and compared with the stack."""
    document = stack_document(stack, workspace)
    text = templates.render(
        f"_shared/{STACK_FILE}.j2",
        doc=document,
        title=agents.title,
        dotenv=workspace.dotenv,
        mounts={service.name: _whys(service) for service in stack.services},
        volumes={volume.key: volume.why for volume in stack.volumes},
    )
    require_same(STACK_FILE, expected=document, actual=load_yaml(text))
    return text


def stack_document(stack: Stack, workspace: Workspace) -> Document:
    """Return the stack as a Compose document; `$` is doubled in values, or Compose would expand variables."""
    document: Document = {
        "name": stack.name,
        RECORD: {
            **agents_record(stack.agents),
            **({PINS_KEY: dict(stack.pins)} if stack.pins else {}),
            "title": workspace.title,
            "ide": workspace.ide.value,
            "dev": f"{workspace.owner.uid}:{workspace.owner.gid}",
            **({"limits": kept(workspace.limits)} if kept(workspace.limits) else {}),
            **({SETTINGS_KEY: True} if workspace.settings else {}),
            **({} if workspace.dotenv else {DOTENV_KEY: False}),
            **({PROJECT_FILE_KEY: workspace.project_file} if workspace.project_file else {}),
        },
        "services": {service.name: _service(service) for service in stack.services},
        "networks": {network.key: _network(network) for network in stack.networks},
        "volumes": {volume.key: _named_volume(volume, stack.sizes) for volume in stack.volumes},
    }
    return {key: _escaped(value) for key, value in document.items()}


def _escaped(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    match value:
        case str():
            return value.replace("$", "$$")
        case Mapping():
            return {key: _escaped(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_escaped(inner) for inner in value]
    return value


def _named_volume(volume: Volume, sizes: Mapping[str, str]) -> Document:
    bounded = {"driver_opts": {"size": sizes[volume.name]}} if volume.name in sizes else {}
    return {"name": volume.name, **bounded}


def _service(service: Service) -> Document:
    said: Document = {
        "image": service.image,
        "pull_policy": "never" if service.image.startswith(OURS) else "missing",
        "user": service.user,
        "hostname": service.hostname,
        "network_mode": f"service:{service.shares_network_of}" if service.shares_network_of else "",
        "networks": {
            place.network: {"ipv4_address": place.address} if place.address else {} for place in service.networks
        },
        "sysctls": dict(service.sysctls),
        "extra_hosts": dict(service.extra_hosts),
        "depends_on": {
            need.service: {"condition": need.condition.value, "restart": need.restart} for need in service.depends_on
        },
        "entrypoint": list(service.entrypoint),
        "command": list(service.command),
        "working_dir": service.working_directory,
        "environment": dict(service.environment),
        "labels": dict(service.labels),
        "volumes": [_volume(mount) for mount in service.mounts if mount.kind is not MountKind.TMPFS],
        "tmpfs": [_tmpfs(mount, service.user) for mount in service.mounts if mount.kind is MountKind.TMPFS],
        **_walls(service),
        **_running(service),
    }
    return {key: value for key, value in said.items() if value not in ("", [], {})}


def _walls(service: Service) -> Document:
    return {
        "cap_drop": ["ALL"],
        "cap_add": list(service.capabilities),
        "security_opt": ["no-new-privileges:true"],
        "read_only": service.read_only,
        "mem_limit": size(service.limits.memory),
        "memswap_limit": size(service.limits.memory),
        "pids_limit": service.limits.pids,
        "shm_size": size(service.shared_memory) if service.shared_memory else "",
        "storage_opt": {"size": size(service.limits.disk)} if service.limits.disk != NO_LIMIT else {},
        "cpu_period": CPU_PERIOD,
        "cpu_quota": round(service.limits.cpus * CPU_PERIOD),
        "ulimits": {"core": 0, **PART_OF_THE_USERS, "nofile": service.limits.files},
    }


def _running(service: Service) -> Document:
    return {
        "init": service.init,
        "restart": service.restart,
        "stop_grace_period": _seconds(service.stop_grace_seconds),
        "logging": LOGGING,
        "healthcheck": _healthcheck(service),
    }


def _healthcheck(service: Service) -> Document:
    check = service.healthcheck
    if check is None:
        return {}
    return {
        "test": ["CMD", *check.test],
        "interval": _seconds(check.interval),
        "timeout": _seconds(check.timeout),
        "retries": check.retries,
        "start_period": _seconds(check.start_period),
        "start_interval": _seconds(check.start_interval),
    }


def _whys(service: Service) -> dict[str, str]:
    return {f"volumes.{mount.target}": mount.why for mount in service.mounts if mount.why}


def _volume(mount: Mount) -> Document:
    """Return a mount; a path of the project is relative to `.devcontainer`, the compose file's directory."""
    volume: Document = {"type": mount.kind.value, "source": mount.source, "target": mount.target}
    if mount.kind is MountKind.BIND:
        volume |= {"source": _source(mount.source), "bind": {"create_host_path": False}}
    return volume | ({"read_only": True} if mount.read_only else {})


def _source(path: str) -> str:
    known = {".": "..", ".devcontainer": "."}
    return path if path.startswith("/") else known.get(path, f"../{path}")


def _tmpfs(mount: Mount, user: str) -> str:
    uid, _, gid = user.partition(":")
    return f"{mount.target}:size={size(mount.size)},uid={uid},gid={gid},mode=0700"


def _network(network: Network) -> Document:
    if not network.internal:
        return {"name": network.name} | ({"driver_opts": dict(network.options)} if network.options else {})
    return {
        "name": network.name,
        "internal": True,
        "enable_ipv6": False,
        "driver_opts": dict(network.options),
        "ipam": {"config": [{"subnet": network.subnet}]},
    }


def _seconds(value: float) -> str:
    return f"{value:g}s"
