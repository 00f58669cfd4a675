"""The driver for podman, whose command takes most of docker's arguments and answers in other words.

`podman compose` runs `docker-compose` on podman's socket. Podman needs no service to answer, so its own version is the
engine's. It puts `localhost/` before the names of images that it builds, and spells most keys in lower case.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, override

from agent_sandbox.backends.compose.plan import ComposePlanner
from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.driver import ComposeDriver
from agent_sandbox.runtime.compose.engine import Engine
from agent_sandbox.runtime.driver.protocol import Driver, Host

PODMAN = Engine(
    program="podman",
    title="Podman",
    oldest=(4, 7, 0),  # the first with `podman compose`
    install="install Podman 4.7 or newer and docker-compose, and make sure that `podman` is on PATH",
    local_prefix="localhost/",
)
# The engine's keys for what it can limit, by cgroup controller.
CONTROLLERS = {"memory": "MemoryLimit", "cpu": "CpuCfsQuota", "pids": "PidsLimit"}


class PodmanHost(EngineHost):
    """The machine on which podman runs, in the words in which docker describes one."""

    @cached_property
    @override
    def versions(self) -> Mapping[str, Any]:
        """The versions; without a remote service, the command is the engine."""
        found = super().versions
        return {**found, "Server": found.get("Server") or found.get("Client")}

    @cached_property
    @override
    def info(self) -> Mapping[str, Any]:
        """What podman says of its machine."""
        found = super().info
        host, store = found.get("host") or {}, found.get("store") or {}
        controllers = host.get("cgroupControllers") or ()
        return {
            "KernelVersion": host.get("kernel"),
            "MemTotal": host.get("memTotal"),
            "NCPU": host.get("cpus"),
            "DockerRootDir": store.get("graphRoot", ""),
            "SecurityOptions": list(_security(host.get("security") or {})),
            **{key: name in controllers for name, key in CONTROLLERS.items()},
        }

    @cached_property
    @override
    def networks(self) -> tuple[Mapping[str, Any], ...]:
        """All networks of podman."""
        return tuple(map(_network, super().networks))


def _network(said: Mapping[str, Any]) -> Mapping[str, Any]:
    ranges = [{"Subnet": one.get("subnet", "")} for one in said.get("subnets") or ()]
    return {"Name": said.get("name"), "Id": said.get("id"), "Labels": said.get("labels"), "IPAM": {"Config": ranges}}


def _security(said: Mapping[str, Any]) -> Iterator[str]:
    if said.get("seccompEnabled"):
        yield f"name=seccomp,profile={said.get('seccompProfilePath') or 'default'}"
    if said.get("rootless"):
        yield "name=rootless"


class PodmanDriver(ComposeDriver, frozen=True, kw_only=True):
    """The compose driver with podman's command."""

    @override
    def host(self) -> Host:
        """Return podman's machine."""
        return PodmanHost(engine=self.engine, features=self.features)


# No feature: it builds by itself, and has an address on each bridge.
DRIVER: Driver = PodmanDriver(
    engine=PODMAN,
    planner=ComposePlanner(program=PODMAN.program, prune_volumes=("volume", "prune", "--force")),
    features=frozenset(),
)
