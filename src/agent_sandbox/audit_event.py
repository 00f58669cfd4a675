"""The kinds of audit records: the proxy writes them, and the commands read them."""

from enum import StrEnum


class Event(StrEnum):
    """What an audit record is about."""

    REQUEST = "request"
    CONNECT = "connect"
    TUNNEL = "tunnel"  # TLS passthrough
    RAW_TUNNEL = "raw_tunnel"
    MALFORMED = "malformed"
    WEBSOCKET = "websocket"
    TLS = "tls"
    DNS = "dns"  # a DNS query
    HEALTH = "health"  # the health check of the proxy container
    START = "start"  # the check of the agent container when it starts
    FAULT = "fault"
    POLICY = "policy"
    GRANT = "grant"  # a person's answer, or the end of a grant


# The stack's own checks, which are not traffic.
CHECKS = frozenset({Event.HEALTH, Event.START})
REQUESTS = frozenset({Event.REQUEST, Event.WEBSOCKET})
# Denied before there was a readable request.
CONNECTIONS = frozenset({Event.CONNECT, Event.TLS, Event.RAW_TUNNEL, Event.MALFORMED})
