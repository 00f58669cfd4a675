"""Find services beside the sandbox that lost their network: their firewall restarted without them."""

from collections.abc import Sequence

from agent_sandbox.engines.container import Container
from agent_sandbox.stack.containers import FIREWALL

CUT_OFF = "lost its network because its firewall restarted"


def cut_off(found: Sequence[Container]) -> tuple[str, ...]:
    """Return the running services whose firewall does not run, or started after them."""
    firewalls = {one.service.removeprefix(FIREWALL): one for one in found if one.service.startswith(FIREWALL)}
    running = (one for one in found if one.state == "running" and one.service in firewalls)
    return tuple(one.service for one in running if _is_newer(firewalls[one.service], one))


def _is_newer(firewall: Container, service: Container) -> bool:
    if firewall.state != "running":
        return True
    return bool(firewall.started and service.started and firewall.started > service.started)
