import pytest

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.together import Agents
from agent_sandbox.resources import data_root
from agent_sandbox.stack.build import StackImages, build_stack
from agent_sandbox.stack.model import Condition, Network, Stack
from agent_sandbox.stack.naming import addresses
from agent_sandbox.stack.recorded import Ide, MountKind
from agent_sandbox.stack.workspace import Protected, Workspace

MANIFEST = load_manifest(data_root() / "templates", "claude")
AGENTS = Agents((MANIFEST,))
WORKSPACE = Workspace(path="/p/app", title="app", ide=Ide.NONE, protected=(Protected(path=".env", why="x"),))
WHERE = addresses("/p/app")


@pytest.fixture
def stack() -> Stack:
    return build_stack(AGENTS, WORKSPACE, StackImages(proxy="proxy:1", agent="agent:1"))


def test_only_the_proxy_is_on_the_egress_network(stack: Stack) -> None:
    connected = {service.name: [place.network for place in service.networks] for service in stack.services}
    assert connected == {"proxy": ["sandbox", "egress"], "firewall": ["sandbox"], "agent": []}
    assert stack.service("agent").shares_network_of == "firewall"


def test_the_sandbox_network_is_internal(stack: Stack) -> None:
    assert stack.networks == (
        Network(
            key="sandbox",
            name=f"{stack.name}_sandbox",
            internal=True,
            subnet=WHERE.subnet,
            options={"com.docker.network.bridge.gateway_mode_ipv4": "isolated"},
        ),
        Network(key="egress", name=f"{stack.name}_egress", internal=False),
    )


def test_only_the_firewall_has_capabilities(stack: Stack) -> None:
    held = {service.name: service.capabilities for service in stack.services}
    assert held == {"proxy": (), "firewall": ("NET_ADMIN", "SETGID", "SETUID"), "agent": ()}


def test_only_the_firewall_is_root(stack: Stack) -> None:
    assert [service.name for service in stack.services if service.user.split(":")[0] == "0"] == ["firewall"]


def test_each_container_waits_until_its_dependency_is_healthy(stack: Stack) -> None:
    needs = {
        service.name: [(need.service, need.condition) for need in service.depends_on] for service in stack.services
    }
    healthy = Condition.HEALTHY
    assert needs == {"proxy": [], "firewall": [("proxy", healthy)], "agent": [("firewall", healthy)]}


@pytest.mark.parametrize("volume", ["ca-private", "secrets"])
def test_only_the_proxy_mounts_the_ca_key_and_the_secrets(stack: Stack, volume: str) -> None:
    holders = [service.name for service in stack.services for mount in service.mounts if mount.source == volume]
    assert holders == ["proxy"]


def test_the_declared_volumes_are_exactly_the_mounted_volumes(stack: Stack) -> None:
    mounted = {mount.source for service in stack.services for mount in service.mounts if mount.kind is MountKind.VOLUME}
    assert {volume.key for volume in stack.volumes} == mounted
    assert all(volume.name == f"{stack.name}_{volume.key}" and volume.why for volume in stack.volumes)


def test_agents_have_separate_state_volumes(stack: Stack) -> None:
    agents = Agents((MANIFEST.model_copy(update={"name": "other"}),))
    other = build_stack(agents, WORKSPACE, StackImages(proxy="proxy:1", agent="agent:1"))
    alone = {volume.name for volume in stack.volumes} - {volume.name for volume in other.volumes}
    assert alone == {f"{stack.name}_state-claude", f"{stack.name}_local-claude"}


def test_every_service_has_limits_an_init_and_a_healthcheck(stack: Stack) -> None:
    for service in stack.services:
        assert service.limits.memory > 0
        assert service.limits.cpus > 0
        assert service.limits.pids > 0
        assert service.init
        assert service.healthcheck is not None


def test_mounts_no_docker_socket_and_no_absolute_path(stack: Stack) -> None:
    sources = [mount.source for service in stack.services for mount in service.mounts]
    assert [source for source in sources if "docker.sock" in source or source.startswith("/")] == []
