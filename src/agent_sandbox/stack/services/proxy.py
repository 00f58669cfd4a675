"""The proxy: the only service with a way out, and the only one with the CA's key and secrets."""

from collections.abc import Mapping

from agent_sandbox.policy.text import MACHINE_NAME
from agent_sandbox.stack.containers import CONTROL, LOG_KEY, PROGRAM, PROXY_USER, SECRETS, SECRETS_KEY, STATE
from agent_sandbox.stack.environment import DNS_PORT, HTTP_PORT, PROXY_PORT, TLS_PORT
from agent_sandbox.stack.limits import Limits
from agent_sandbox.stack.model import Attachment, Healthcheck, Mount, Service
from agent_sandbox.stack.naming import Addresses
from agent_sandbox.stack.recorded import MountKind

POLICY = "/policy/policy.yaml"
POLICY_NAME = ".devcontainer/policy.yaml"  # its name in messages
MIB = 1 << 20
ENTRANCES = {"tls": TLS_PORT, "http": HTTP_PORT, "dns": DNS_PORT}


def proxy_service(image: str, where: Addresses, layers: Mapping[str, str]) -> Service:
    """Return the service; its image starts the program with the stack's arguments.

    `layers` are the directories of the other layers, whose files may appear, change and disappear.
    """
    # Not on all addresses: only the agent may connect, not the egress network.
    entrance = f"{where.proxy}:{PROXY_PORT}"
    return Service(
        name="proxy",
        image=image,
        user=PROXY_USER,
        command=(
            *("run", "--policy", POLICY, "--policy-name", POLICY_NAME, "--listen", entrance, "--state", STATE),
            *(word for name, port in ENTRANCES.items() for word in (f"--{name}", f"{where.proxy}:{port}")),
            *(word for name in layers for word in ("--layer", f"{name}={layer_folder(name)}/policy.yaml")),
        ),
        mounts=(
            Mount(kind=MountKind.BIND, source=".devcontainer", target="/policy", read_only=True),
            *(
                Mount(kind=MountKind.BIND, source=folder, target=layer_folder(name), read_only=True)
                for name, folder in layers.items()
            ),
            Mount(kind=MountKind.VOLUME, source="ca-private", target=f"{STATE}/private", read_only=False),
            Mount(kind=MountKind.VOLUME, source=SECRETS_KEY, target=SECRETS, read_only=False),
            Mount(kind=MountKind.VOLUME, source="ca-public", target=f"{STATE}/ca", read_only=False),
            Mount(kind=MountKind.VOLUME, source=LOG_KEY, target=f"{STATE}/log", read_only=False),
            Mount(kind=MountKind.TMPFS, target=f"{STATE}/run", size=MIB, read_only=False),
            Mount(kind=MountKind.TMPFS, target="/tmp", size=64 * MIB, read_only=False),  # noqa: S108 - a container's
        ),
        networks=(Attachment(network="sandbox", address=where.proxy), Attachment(network="egress")),
        # Always: a policy that names it may be loaded later. The dialler decides what may connect there.
        extra_hosts={MACHINE_NAME: "host-gateway"},
        read_only=True,
        init=True,
        # Without the proxy the agent has no way out, so it may restart automatically.
        restart="unless-stopped",
        stop_grace_seconds=5,
        limits=Limits(memory=1024 * MIB, cpus=2, pids=256, files=16_384),
        healthcheck=Healthcheck(
            test=(*PROGRAM, "health", "--control", CONTROL, "--proxy", entrance),
            interval=15,
            timeout=10,
            retries=1,
            # Long enough to start on a busy machine, short enough for `up` to report an invalid policy soon.
            start_period=15,
            start_interval=0.5,
        ),
    )


def layer_folder(name: str) -> str:
    """Return where a layer's directory is mounted."""
    return f"/layers/{name}"
