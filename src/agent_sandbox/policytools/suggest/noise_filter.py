"""Filter out hosts that no rule should be suggested for, such as the reserved names that `verify` requests.

The filter looks only at the host, which a client cannot misuse: reserved names lead nowhere.
"""

from ipaddress import ip_address, ip_network

from agent_sandbox.policy.http.addresses import why_forbidden
from agent_sandbox.policy.match.private_hosts import is_private_name

# Names that are not in DNS at all (RFC 7686, 9476).
NOT_IN_DNS = frozenset({"alt", "onion"})
# Reserved for documentation, or to be invalid (RFC 5737, 3849, 6761).
RESERVED_TLD = "invalid"
RESERVED_NETWORKS = tuple(map(ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")))
PRIVATE = "a private host"
RESERVED = "a reserved name or address, such as `agent-sandbox verify` requests"


def why_not_suggested(host: str) -> str:
    """Return why no rule is suggested for a host, or an empty string.

    >>> why_not_suggested("agent-sandbox.invalid"), why_not_suggested("db.internal"), why_not_suggested("example.com")
    ('a reserved name or address, such as `agent-sandbox verify` requests', 'a private host', '')
    """
    if ":" not in host and not host[-1:].isdigit():
        return _why_name_not_suggested(host)
    try:
        if any(ip_address(host) in network for network in RESERVED_NETWORKS):
            return RESERVED
        return PRIVATE if why_forbidden(host) else ""
    except ValueError:  # a name
        return _why_name_not_suggested(host)


def _why_name_not_suggested(name: str) -> str:
    top = name.rpartition(".")[2]
    if top == RESERVED_TLD:
        return RESERVED
    return PRIVATE if top in NOT_IN_DNS or is_private_name(name) else ""
