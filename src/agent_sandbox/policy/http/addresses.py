"""Addresses that the sandbox cannot reach: no entry can name one, and no name can resolve to one.

An explicit list, not `is_private`: that changes between Python versions, and includes the documentation networks
198.51.100.0/24 and 203.0.113.0/24, which the tests use as their internet.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

FORBIDDEN: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),  # 100.100.100.200 is a cloud's metadata service
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud metadata"),
        ("169.254.0.0/16", "link-local"),  # 169.254.169.254 is every cloud's metadata service
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/96", "unspecified, loopback or v4-compatible"),
        ("::ffff:0:0/96", "v4-mapped"),
        ("::ffff:0:0:0/96", "v4-translated"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard-only"),
        ("2001::/23", "protocol assignments"),  # Teredo is inside
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),  # fd00:ec2::254 is a cloud's metadata service
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
# Private networks, which `host_services` can open. Nothing opens the others.
LIFTABLE: tuple[Network, ...] = tuple(
    ip_network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
# Metadata services give out the machine's credentials: never opened, although they are in private networks.
METADATA: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            "100.100.100.200/32",  # Alibaba
            "fd00:100::100:200/128",
            "fd00:42::42/128",  # Scaleway
            "fd00:a9fe:a9fe::1/128",  # Akamai
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "fd00:ec2::/32",  # Amazon: also the keys of a pod, at ::23
            "fd20:ce::254/128",  # Google
        ),
    )
)
PUBLIC_ALONE = "the proxy connects only to public addresses, unless `host_services` names a private one"
NAT64 = IPv6Network("64:ff9b::/96")


def why_forbidden(text: str) -> str | None:
    """Return the kind of a forbidden address, or None for one that the proxy may connect to.

    >>> why_forbidden("127.0.0.1"), why_forbidden("64:ff9b::7f00:1"), why_forbidden("203.0.113.9")
    ('loopback', 'loopback', None)
    """
    zone_free, _, zone = text.partition("%")
    address: Address = ip_address(zone_free)
    if zone:
        return "link-local"
    if address in NAT64:
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    return next((what for network, what in FORBIDDEN if address in network), None)


def is_liftable(text: str) -> bool:
    """Return whether an entry of `host_services` can lead to this address.

    >>> is_liftable("10.1.2.3"), is_liftable("127.0.0.1"), is_liftable("100.100.100.200")
    (True, False, False)
    """
    if "%" in text:
        return False
    address: Address = ip_address(text)
    return any(address in network for network in LIFTABLE) and not any(address in network for network in METADATA)


def is_liftable_network(network: Network) -> bool:
    """Return whether an entry of `host_services` can name this network. `is_liftable` decides on each address in it.

    >>> is_liftable_network(ip_network("fd00::/16")), is_liftable_network(ip_network("fd00:ec2::/64"))
    (True, False)
    """
    return _is_within(network, LIFTABLE) and not _is_within(network, METADATA)


def _is_within(network: Network, others: Iterable[Network]) -> bool:
    return any(network.version == wide.version and network.subnet_of(wide) for wide in others)  # type: ignore[arg-type] # of one version
