"""Check that no other network uses the stack's subnet."""

import socket
import struct
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.plan import PROJECT_LABEL
from agent_sandbox.engines.result import CheckResult, fail, ok
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.stack.naming import addresses

ROUTES = Path("/proc/net/route")


def subnet(host: EngineHost, project: Project) -> CheckResult:
    """Compare the stack's subnets with the engine's other networks and this system's routes."""
    ours = [*map(IPv4Network, read_facts(project.root).subnets or [addresses(str(project.root)).subnet])]
    taken = {**dict(_networks(host, project.name)), **_routes(host)}
    colliding = [name for name, other in taken.items() if other.prefixlen > 0 and any(map(other.overlaps, ours))]
    own = [name for name in colliding if name.startswith("route ") and _is_ours(host, project.name, name)]
    others = sorted(set(colliding) - set(own))
    names, be = ", ".join(map(str, ours)), "are" if len(ours) > 1 else "is"
    if others:
        remove = _ended(host, others) or f"remove unused ones with `{host.engine.program} network rm`"
        hint = f"{remove}, or move the project to another path and run init again"
        return fail("subnet", f"{names} {be} also used by {', '.join(others)}", hint)
    return ok("subnet", f"{names} {be} free" if not own else f"{names} {be} the stack's own")


def read_routes(table: str) -> dict[str, IPv4Network]:
    """Return the destinations of `/proc/net/route`, by interface and network."""
    found = {}
    for line in table.splitlines()[1:]:
        interface, destination, _, _, _, _, _, mask, *_ = line.split()
        network = IPv4Network((_address(destination), _address(mask)), strict=False)
        found[f"route {network} via {interface}"] = network
    return found


def _address(hexadecimal: str) -> str:
    return socket.inet_ntoa(struct.pack("<L", int(hexadecimal, 16)))


def _routes(host: EngineHost) -> dict[str, IPv4Network]:
    return read_routes(ROUTES.read_text()) if ROUTES.exists() and host.is_local else {}


def _networks(host: EngineHost, project: str) -> Iterator[tuple[str, IPv4Network]]:
    for network in host.networks:
        if (network.get("Labels") or {}).get(PROJECT_LABEL) == project:
            continue
        for config in (network.get("IPAM") or {}).get("Config") or ():
            if "." in config.get("Subnet", ""):
                yield f"{host.engine.program} network {network['Name']}", IPv4Network(config["Subnet"])


def _ended(host: EngineHost, others: Sequence[str]) -> str:
    """Return the command that removes the stack of one of these networks, perhaps this project's former one."""
    projects = {
        f"{host.engine.program} network {n['Name']}": (n.get("Labels") or {}).get(PROJECT_LABEL) for n in host.networks
    }
    stack = next((found for name in others if (found := projects.get(name))), None)
    # From `/`, because a project's .env would point compose to another stack's file.
    command = f"{host.engine.program} compose --project-name {stack} down"
    return f"remove a stack that you do not need: cd / && {command}" if stack else ""


def _is_ours(host: EngineHost, project: str, route: str) -> bool:
    ours = (n["Id"][:12] for n in host.networks if (n.get("Labels") or {}).get(PROJECT_LABEL) == project)
    return any(route.endswith(f"via br-{identity}") for identity in ours)
