from ipaddress import ip_network

import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.host_service import (
    HOW,
    HostService,
    HostServiceRow,
    Target,
    find_host_service,
    host_service_row,
    parse_host_service_name,
    parse_target,
)
from table_tests import each

LAN = ip_network("10.1.2.0/24")


@each(
    ("text", "target"),
    [
        ("host:11434", Target(to="host", port=11434)),
        ("Db.Internal.:5432", Target(to="db.internal", port=5432)),
        ("db:1", Target(to="db", port=1)),
        ("10.1.2.3:65535", Target(to="10.1.2.3", port=65535)),
        ("[FD00:0::1]:80", Target(to="fd00::1", port=80)),
        ("10.1.2.0/24", Target(to="", port=None, network=LAN)),
        ("100.64.0.0/10", Target(to="", port=None, network=ip_network("100.64.0.0/10"))),
        ("fd00::/64", Target(to="", port=None, network=ip_network("fd00::/64"))),
    ],
)
def test_parses_a_target_to_a_host_with_a_port_or_a_network(text: str, target: Target) -> None:
    assert parse_target(text) == target


PRIVATE = "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7"


@each(
    ("text", "what", "hint"),
    [
        ("host", "not a target: 'host': the port is missing", HOW),
        ("host:", "not a target: 'host:': not a port: ''", HOW),
        ("host:0", "not a target: 'host:0': not a port: '0'", HOW),
        ("host:70000", "not a target: 'host:70000': not a port: '70000'", HOW),
        ("host:http", "not a target: 'host:http': not a port: 'http'", HOW),
        ("", "not a target: '': not a host name: ''", HOW),
        (":80", "not a target: ':80': not a host name: ''", HOW),
        ("me@db:80", "not a target: 'me@db:80': not `host:port`: 'me@db:80'", HOW),
        ("*.internal:80", "not a target: '*.internal:80': not a host name: '*.internal'", HOW),
        ("d b:80", "not a target: 'd b:80': not a host name: 'd b'", HOW),
        ("fd00::1:80", "not a target: 'fd00::1:80': not a port: ':1:80'", HOW),
        ("127.1:80", "not a target: '127.1:80': an address that programs read differently: '127.1'", HOW),
        ("http://host:11434/", "'http://host:11434/' is a URL", HOW),
        ("localhost:80", "`localhost` is the proxy itself", "the Docker host is `host:80`"),
        ("a.localhost:80", "`a.localhost` is the proxy itself", "the Docker host is `host:80`"),
        ("127.0.0.1:80", "127.0.0.1 is not a private address (loopback)", "the Docker host is `host:80`"),
        (
            "169.254.169.254:80",
            "169.254.169.254 is not a private address (link-local)",
            "remove it: no policy can allow it",
        ),
        (
            "100.100.100.200:80",
            "100.100.100.200 is not a private address (carrier-grade NAT)",
            "remove it: no policy can allow it",
        ),
        ("[fd00:ec2::23]:80", "fd00:ec2::23 is not a private address (private)", "remove it: no policy can allow it"),
        ("[fd00:42::42]:80", "fd00:42::42 is not a private address (private)", "remove it: no policy can allow it"),
        ("0.0.0.0:80", "0.0.0.0 is not a private address (unspecified)", "remove it: no policy can allow it"),
        ("[ff02::1]:80", "ff02::1 is not a private address (multicast)", "remove it: no policy can allow it"),
        ("203.0.113.7:80", "203.0.113.7 is a public address", "put it under `domains`"),
        ("10.0.0.0/", "not a network: '10.0.0.0/'", HOW),
        ("10.0.0.0/33", "not a network: '10.0.0.0/33'", HOW),
        ("10.0.0/24", "not a network: '10.0.0/24'", HOW),
        ("10.0.0.0/24:80", "not a network: '10.0.0.0/24:80'", HOW),
        ("host/24", "not a network: 'host/24'", HOW),
        ("10.1.2.3/24", "'10.1.2.3/24' has host bits set", "write `10.1.2.0/24`"),
        ("FD00::/64", "'FD00::/64' has host bits set", "write `fd00::/64`"),
        ("0.0.0.0/0", "`0.0.0.0/0` is not a private network", f"write one within {PRIVATE}"),
        ("10.0.0.0/7", "`10.0.0.0/7` is not a private network", f"write one within {PRIVATE}"),
        ("127.0.0.0/8", "`127.0.0.0/8` is not a private network", f"write one within {PRIVATE}"),
        ("169.254.0.0/16", "`169.254.0.0/16` is not a private network", f"write one within {PRIVATE}"),
        ("198.51.100.0/24", "`198.51.100.0/24` is not a private network", f"write one within {PRIVATE}"),
        ("fd00:ec2::/64", "`fd00:ec2::/64` is not a private network", f"write one within {PRIVATE}"),
        ("fe80::/64", "`fe80::/64` is not a private network", f"write one within {PRIVATE}"),
    ],
)
def test_rejects_invalid_targets_with_reason_and_hint(text: str, what: str, hint: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        parse_target(text)
    assert (invalid.value.what, invalid.value.hint) == (what, hint)


@each(
    ("name", "what"),
    [
        ("Ollama", "not a host service name: 'Ollama'"),
        ("a.b", "not a host service name: 'a.b'"),
        ("a_b", "not a host service name: 'a_b'"),
        ("1", "not a host service name: '1'"),
        ("-a", "not a host service name: '-a'"),
        ("", "not a host service name: ''"),
        ("a" * 64, f"not a host service name: '{'a' * 64}'"),
        ("localhost", "requests to `localhost` never reach the proxy"),
        ("host", "requests to `host` never reach the proxy"),
    ],
)
def test_accepts_only_names_of_one_dns_label_that_reach_the_proxy(name: str, what: str) -> None:
    assert parse_host_service_name("ollama-2") == "ollama-2"
    with pytest.raises(InvalidValue) as invalid:
        parse_host_service_name(name)
    assert invalid.value.what == what


def rows() -> list[HostServiceRow]:
    places = {"ollama": "host:11434", "db": "db.internal:5432", "one": "10.1.2.3:80"}
    written = [host_service_row(name, parse_target(to), ()) for name, to in places.items()]
    return [host_service_row("lan", parse_target("10.1.2.0/24"), (80, 8080)), *written]


@each(
    ("asked", "found"),
    [
        (("ollama", 11434), HostService(name="ollama", to="host", port=11434)),
        (("db.internal", 5432), HostService(name="db", to="db.internal", port=5432)),
        (("10.1.2.3", 80), HostService(name="one", to="10.1.2.3", port=80)),
        (("10.1.2.3", 8080), HostService(name="lan", to="10.1.2.3", port=8080, network=LAN)),
        (("10.1.2.255", 80), HostService(name="lan", to="10.1.2.255", port=80, network=LAN)),
        (("10.1.3.1", 80), None),
        (("ollama", 80), None),
        (("db", 5432), None),
        (("host", 11434), None),
    ],
)
def test_finds_a_host_service_by_name_or_address_and_port(asked: tuple[str, int], found: HostService | None) -> None:
    assert find_host_service(rows(), *asked) == found


def test_the_highest_layer_sets_the_target_of_a_host_service() -> None:
    higher = [*rows(), host_service_row("ollama", parse_target("host:11434"), ())]
    other = HostServiceRow(name="x", asked=parse_host_pattern("ollama"), ports=frozenset({11434}), to="db.internal")
    assert find_host_service([*higher, other], "ollama", 11434) == HostService(name="x", to="db.internal", port=11434)
