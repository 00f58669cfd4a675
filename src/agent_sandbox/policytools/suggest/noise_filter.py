"""Which hosts an agent may have wanted: what is nobody's is asked for by `verify`, or by who tries walls as it does.

It goes by what is asked for and not by who says that he asks: by such a name nobody gets anything out, or hides it.
"""

from ipaddress import ip_address, ip_network

from agent_sandbox.policy.http.addresses import why_forbidden

# Names that mean something else, or nothing, in every network (RFC 6761, 6762, 8375, 9476, and what people use).
PRIVATE_ENDS = frozenset({"alt", "corp", "home", "internal", "lan", "local", "localhost", "onion"})
# What is set aside for documentation, or to be invalid (RFC 5737, 3849, 6761).
NOBODYS_END = "invalid"
NOBODYS = tuple(map(ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")))
PRIVATE = "a private host"
RESERVED = "nobody's name or address, as `agent-sandbox verify` asks for"


def why_no_wish(host: str) -> str:
    """Say why no rule is proposed for a host; nothing for one that somebody may have.

    >>> why_no_wish("agent-sandbox.invalid"), why_no_wish("db.internal"), why_no_wish("example.com")
    ("nobody's name or address, as `agent-sandbox verify` asks for", 'a private host', '')
    """
    if ":" not in host and not host[-1:].isdigit():
        return _why_no_name(host)
    try:
        if any(ip_address(host) in network for network in NOBODYS):
            return RESERVED
        return PRIVATE if why_forbidden(host) else ""
    except ValueError:  # a name
        return _why_no_name(host)


def _why_no_name(name: str) -> str:
    labels = name.split(".")
    if labels[-1] == NOBODYS_END:
        return RESERVED
    return PRIVATE if len(labels) == 1 or labels[-1] in PRIVATE_ENDS or labels[-2:] == ["home", "arpa"] else ""
