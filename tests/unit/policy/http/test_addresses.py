from ipaddress import ip_network

from agent_sandbox.policy.http.addresses import is_liftable, is_liftable_network, why_forbidden
from table_tests import each


@each(
    ("address", "why"),
    [
        ("0.0.0.0", "unspecified"),  # noqa: S104 - judged, not bound
        ("10.255.0.1", "private"),
        ("100.100.100.200", "carrier-grade NAT"),
        ("127.8.8.8", "loopback"),
        ("168.63.129.16", "cloud metadata"),
        ("169.254.169.254", "link-local"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("192.0.2.1", "documentation"),
        ("198.19.0.1", "benchmarking"),
        ("224.0.0.251", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified, loopback or v4-compatible"),
        ("::1", "unspecified, loopback or v4-compatible"),
        ("::7f00:1", "unspecified, loopback or v4-compatible"),
        ("::ffff:8.8.8.8", "v4-mapped"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::1", "local NAT64"),
        ("2001::1", "protocol assignments"),
        ("2002:7f00:1::", "6to4"),
        ("fd00:ec2::254", "private"),
        ("fe80::1%eth0", "link-local"),
        ("2606:4700::1111%eth0", "link-local"),
        ("ff02::fb", "multicast"),
    ],
)
def test_forbids_non_public_addresses_in_every_form(address: str, why: str) -> None:
    assert why_forbidden(address) == why


@each(
    "address",
    ["1.1.1.1", "198.51.100.7", "203.0.113.7", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"],
)
def test_allows_public_addresses(address: str) -> None:
    assert why_forbidden(address) is None


@each(
    ("address", "liftable"),
    [
        ("10.0.0.1", True),
        ("172.31.255.255", True),
        ("192.168.0.1", True),
        ("100.64.0.1", True),
        ("fd12::1", True),
        ("172.32.0.1", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("169.254.169.254", False),
        ("100.100.100.200", False),
        ("fd00:ec2::254", False),
        ("fd00:ec2::23", False),
        ("fd00:ec2:ffff::1", False),
        ("fd00:ec3::23", True),
        ("fd20:ce::254", False),
        ("fd00:42::42", False),
        ("fd00:42::43", True),
        ("fd00:a9fe:a9fe::1", False),
        ("fd00:c1::a9fe:a9fe", False),
        ("fd00:100::100:200", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("203.0.113.9", False),
    ],
)
def test_only_private_addresses_that_are_not_cloud_metadata_can_be_opened(address: str, *, liftable: bool) -> None:
    assert is_liftable(address) is liftable


@each(
    ("network", "holds"),
    [
        ("10.1.0.0/16", True),
        ("100.64.0.0/10", True),
        ("fd00::/16", True),
        ("100.100.100.200/32", False),
        ("fd00:ec2::/32", False),
        ("fd00:ec2::/64", False),
        ("fd00:42::42/128", False),
        ("0.0.0.0/0", False),
        ("2001:db8::/32", False),
    ],
)
def test_only_private_networks_that_are_not_cloud_metadata_can_be_opened(network: str, *, holds: bool) -> None:
    assert is_liftable_network(ip_network(network)) is holds
