"""From what is known of an agent and of a project to the stack that runs it. Pure: the same in, the same out."""

from dataclasses import dataclass

from agent_sandbox.agents.manifest import AgentManifest
from agent_sandbox.stack.model import Network, Stack, Volume
from agent_sandbox.stack.naming import addresses, network_name, stack_name
from agent_sandbox.stack.services.agent import agent_service, state_volume
from agent_sandbox.stack.services.firewall import firewall_service
from agent_sandbox.stack.services.proxy import proxy_service
from agent_sandbox.stack.workspace import Workspace

VOLUMES = {
    "ca-private": "the CA's key: the proxy's alone",
    "secrets": "what the proxy puts into requests: the proxy's alone",
    "ca-public": "the CA's certificate: everyone reads it",
    "log": "every decision, one line of JSON each",
    "trust": "the system's certificates and the CA's, as the agent sees them",
    "history": "the shell's history",
}
STATE = "what the agent remembers: sign-in, settings, sessions"
# The engine gives its own address on the bridge to nobody: services of the host are not reached that way either.
ISOLATED = {"com.docker.network.bridge.gateway_mode_ipv4": "isolated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackImages:
    """The names of the images that a stack runs."""

    proxy: str
    agent: str


def build_stack(manifest: AgentManifest, workspace: Workspace, images: StackImages) -> Stack:
    """Return the stack of one project: `proxy`, `firewall`, `agent`."""
    name = stack_name(workspace.title, workspace.path)
    where = addresses(workspace.path)
    volumes = {**VOLUMES, state_volume(manifest.name): STATE}
    return Stack(
        name=name,
        agent=manifest.name,
        services=(
            proxy_service(images.proxy, where, workspace.layers),
            firewall_service(images.agent, where),
            agent_service(images.agent, where, manifest, workspace),
        ),
        networks=(
            Network(
                key="sandbox",
                name=network_name(name),
                internal=True,
                subnet=where.subnet,
                options=ISOLATED,
            ),
            Network(key="egress", name=f"{name}_egress", internal=False),
        ),
        volumes=tuple(Volume(key=key, name=f"{name}_{key}", why=why) for key, why in volumes.items()),
    )
