"""The kinds of audit records, apart from the record: commands that read the log start without the policy engine."""

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
