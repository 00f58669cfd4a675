"""Recognise the stack's own requests, the health check and the start check. Only a denied request can be one.

A health check must also come from the proxy container itself, which nothing else in the sandbox can imitate, so not
every one needs an audit record. The start check comes from the agent container, where the agent could copy it: such a
request is left out of listings, but it is counted and has a record.
"""

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Request
from agent_sandbox.proxy.control.health import PROBE
from agent_sandbox.proxy.tunnel import Tunnel

# `.invalid` can never be registered (RFC 6761), and no wildcard allows it.
AT_START = ("agent-sandbox.invalid", 80, "/")
EVENTS = {PROBE: Event.HEALTH, AT_START: Event.START}


def event_of_denial(request: Request, tunnel: Tunnel) -> Event:
    """Return the event type for the audit record of the denied `request`."""
    if request.method != "GET" or tunnel.host:
        return Event.REQUEST
    event = EVENTS.get((request.host, request.port, request.target), Event.REQUEST)
    return Event.REQUEST if event is Event.HEALTH and not tunnel.own else event
