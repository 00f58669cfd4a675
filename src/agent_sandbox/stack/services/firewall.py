"""The firewall: owns the agent's network namespace, locks it before the agent exists, then sleeps."""

from agent_sandbox.stack.environment import CA_DIRECTORY, OPENINGS, PROXY_PORT, TRUST_DIRECTORY
from agent_sandbox.stack.limits import Limits
from agent_sandbox.stack.model import Attachment, Condition, Dependency, Healthcheck, Mount, Service
from agent_sandbox.stack.naming import Addresses
from agent_sandbox.stack.recorded import MountKind

READY = "/tmp/agent-sandbox.ready"  # noqa: S108 - a container's
MIB = 1 << 20
# If the proxy is gone, the kernel gives up after three seconds, not minutes. Shorter neighbour timeouts, which the
# firewall sets, make it notice sooner.
IMPATIENT = {"net.ipv4.tcp_syn_retries": "1", "net.ipv4.tcp_retries2": "4"}


def firewall_service(image: str, where: Addresses) -> Service:
    """Return the firewall service, which runs one of our images as root, with NET_ADMIN to set its rules."""
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
        # NET_ADMIN loads the rules; the other two let it switch to nobody, and so drop all three, before it sleeps.
        capabilities=("NET_ADMIN", "SETGID", "SETUID"),
        # The firewall writes resolv.conf, which the agent shares; the engine mounts it with the root's mode.
        read_only=False,
        init=True,
        # A restart would create a namespace without the agent; `agent-sandbox up` restarts both.
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
