"""What the stack asks of itself, told from traffic. Only a denial can be one: what is allowed counts as what it is.

The health check is known by where it comes from as well: the proxy's own machine, as which nothing in the sandbox can
come. It need not leave a line each time. The agent's container asks at its start from where the agent asks later: what
copies that question is left out of a list, but leaves its line and is counted.
"""

from agent_sandbox.policy import Request
from agent_sandbox.proxy.audit.record import Event
from agent_sandbox.proxy.control.health import PROBE
from agent_sandbox.proxy.tunnel import Tunnel

# Nobody can own such a name (RFC 6761), and no wildcard can allow it.
AT_START = ("agent-sandbox.invalid", 80, "/")
EVENTS = {PROBE: Event.HEALTH, AT_START: Event.START}


def event_of_denial(request: Request, tunnel: Tunnel) -> Event:
    """Return what the denied `request` is written down as."""
    if request.method != "GET" or tunnel.host:
        return Event.REQUEST
    event = EVENTS.get((request.host, request.port, request.target), Event.REQUEST)
    return Event.REQUEST if event is Event.HEALTH and not tunnel.own else event
