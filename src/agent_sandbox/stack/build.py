"""Build the stack of an agent and a project. Pure."""

from msgspec import Struct

from agent_sandbox.agents.together import Agents
from agent_sandbox.stack.containers import CLONE
from agent_sandbox.stack.engine import ISOLATED, MTU
from agent_sandbox.stack.model import Network, Stack, Volume
from agent_sandbox.stack.naming import addresses, network_name, stack_name
from agent_sandbox.stack.services.agent import agent_service, local_volume, state_volumes
from agent_sandbox.stack.services.firewall import firewall_service
from agent_sandbox.stack.services.proxy import proxy_service
from agent_sandbox.stack.workspace import Workspace

VOLUMES = {
    "ca-private": "the CA's key, only for the proxy",
    "secrets": "the secrets that the proxy injects, only for the proxy",
    "ca-public": "the CA's certificate, for all containers",
    "log": "the audit log: one line of JSON per decision",
    "trust": "the agent's trust store: the system's certificates and the CA's",
    "history": "the shell history",
    "home-cache": "what the tools in the sandbox downloaded: ~/.cache",
}
CLONED = "the clone of the project that the agent works on"
STATE = "the agent's sign-in, settings and sessions"
LOCAL = "programs and data that were installed under ~/.local"


class StackImages(Struct, frozen=True, kw_only=True):
    """The names of a stack's images; `firewall` is the machine's base if the project adds to its agents' image."""

    proxy: str
    agent: str
    firewall: str = ""


def build_stack(agents: Agents, workspace: Workspace, images: StackImages) -> Stack:
    """Return the stack of one project: `proxy`, `firewall`, `agent`, and the services beside them."""
    name = stack_name(workspace.title, workspace.path)
    where = addresses(workspace.path)
    states = (key for manifest in agents.manifests for key in state_volumes(manifest))
    cloned = {CLONE: CLONED} if workspace.in_volume else {}
    volumes = {**cloned, **VOLUMES, local_volume(agents): LOCAL, **dict.fromkeys(states, STATE)}
    stack = Stack(
        name=name,
        agents=agents.names,
        pins={name: pin.text for name, pin in agents.pins.items()},
        services=(
            proxy_service(images.proxy, where, workspace.layers),
            firewall_service(images.firewall or images.agent, where),
            agent_service(images.agent, where, agents, workspace),
        ),
        networks=(
            Network(
                key="sandbox",
                name=network_name(name),
                internal=True,
                subnet=where.subnet,
                options=ISOLATED,
            ),
            Network(key="egress", name=f"{name}_egress", internal=False, options=_sized(workspace.mtu)),
        ),
        volumes=tuple(Volume(key=key, name=f"{name}_{key}", why=why) for key, why in volumes.items()),
    )
    if not workspace.beside:
        return stack
    from agent_sandbox.stack.services.beside import with_beside  # noqa: PLC0415 - few projects have any

    return with_beside(stack, workspace)


def _sized(mtu: int) -> dict[str, str]:
    return {MTU: str(mtu)} if mtu else {}
