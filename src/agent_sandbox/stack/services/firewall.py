"""The firewall: owns the network namespace that the agent lives in, locks it before the agent exists, then sleeps."""

from agent_sandbox.stack.environment import CA_DIRECTORY, OPENINGS, PROXY_PORT, TRUST_DIRECTORY
from agent_sandbox.stack.model import (
    Attachment,
    Condition,
    Dependency,
    Healthcheck,
    Limits,
    Mount,
    MountKind,
    Service,
)
from agent_sandbox.stack.naming import Addresses

READY = "/tmp/agent-sandbox.ready"  # noqa: S108 - a container's
MIB = 1 << 20
# A proxy that is gone can refuse nothing: the kernel gives up after three seconds, not after minutes. As the firewall
# tells it to, it notices sooner that nobody is at the address any more.
IMPATIENT = {"net.ipv4.tcp_syn_retries": "1", "net.ipv4.tcp_retries2": "4"}


def firewall_service(image: str, where: Addresses) -> Service:
    """Return the service: the agent's image with another entrypoint, root, and the one capability that rules need."""
    return Service(
        name="firewall",
        image=image,
        user="0:0",
        hostname="agent",
        entrypoint=("/usr/local/lib/agent-sandbox/firewall",),
        environment={
            "AGENT_SANDBOX_PROXY": f"{where.proxy}:{PROXY_PORT}",
            "AGENT_SANDBOX_PROXY_PORTS": " ".join(OPENINGS),
        },
        mounts=(
            Mount(kind=MountKind.VOLUME, source="trust", target=TRUST_DIRECTORY, read_only=False),
            Mount(kind=MountKind.VOLUME, source="ca-public", target=CA_DIRECTORY, read_only=True),
            Mount(kind=MountKind.TMPFS, target="/run", size=MIB, read_only=False),
            Mount(kind=MountKind.TMPFS, target="/tmp", size=16 * MIB, read_only=False),  # noqa: S108 - a container's
        ),
        networks=(Attachment(network="sandbox", address=where.agent),),
        sysctls=IMPATIENT,
        # NET_ADMIN loads the rules; the other two let it step down to nobody, and so lose it, before the long sleep.
        capabilities=("NET_ADMIN", "SETGID", "SETUID"),
        # The engine mounts resolv.conf, which the agent shares, as it mounts the root: here it is written.
        read_only=False,
        init=True,
        # A new namespace would not be the agent's: they come back together, by `docker compose up`.
        restart="no",
        stop_grace_seconds=1,
        limits=Limits(memory=128 * MIB, cpus=1, pids=64, files=1024),
        depends_on=(Dependency(service="proxy", condition=Condition.HEALTHY, restart=False),),
        healthcheck=Healthcheck(
            test=("test", "-e", READY),
            interval=30,
            timeout=5,
            retries=1,
            start_period=30,
            start_interval=0.2,
        ),
    )
