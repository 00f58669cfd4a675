from ipaddress import ip_network

import pytest

from agent_sandbox.policy.errors import Unfit
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
def test_a_target_is_one_place_with_its_port_or_a_network(text: str, target: Target) -> None:
    assert parse_target(text) == target


PRIVATE = "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7"


@each(
    ("text", "what", "hint"),
    [
        ("host", "'host' is no target: the port is missing", HOW),
        ("host:", "'host:' is no target: '' is no port", HOW),
        ("host:0", "'host:0' is no target: '0' is no port", HOW),
        ("host:70000", "'host:70000' is no target: '70000' is no port", HOW),
        ("host:http", "'host:http' is no target: 'http' is no port", HOW),
        ("", "'' is no target: '' is no host name", HOW),
        (":80", "':80' is no target: '' is no host name", HOW),
        ("me@db:80", "'me@db:80' is no target: 'me@db:80' is no `host:port`", HOW),
        ("*.internal:80", "'*.internal:80' is no target: '*.internal' is no host name", HOW),
        ("d b:80", "'d b:80' is no target: 'd b' is no host name", HOW),
        ("fd00::1:80", "'fd00::1:80' is no target: ':1:80' is no port", HOW),
        ("127.1:80", "'127.1:80' is no target: '127.1' is an address in a form that programs read differently", HOW),
        ("http://host:11434/", "'http://host:11434/' is a URL", HOW),
        ("localhost:80", "`localhost` is the proxy itself", "the engine's machine is `host:80`"),
        ("a.localhost:80", "`a.localhost` is the proxy itself", "the engine's machine is `host:80`"),
        ("127.0.0.1:80", "127.0.0.1 is no private address (loopback)", "the engine's machine is `host:80`"),
        (
            "169.254.169.254:80",
            "169.254.169.254 is no private address (link-local)",
            "take it out: no policy lifts that",
        ),
        (
            "100.100.100.200:80",
            "100.100.100.200 is no private address (carrier-grade NAT)",
            "take it out: no policy lifts that",
        ),
        ("[fd00:ec2::23]:80", "fd00:ec2::23 is no private address (private)", "take it out: no policy lifts that"),
        ("[fd00:42::42]:80", "fd00:42::42 is no private address (private)", "take it out: no policy lifts that"),
        ("0.0.0.0:80", "0.0.0.0 is no private address (unspecified)", "take it out: no policy lifts that"),
        ("[ff02::1]:80", "ff02::1 is no private address (multicast)", "take it out: no policy lifts that"),
        ("203.0.113.7:80", "203.0.113.7 is a public address", "it goes under `domains`"),
        ("10.0.0.0/", "'10.0.0.0/' is no network", HOW),
        ("10.0.0.0/33", "'10.0.0.0/33' is no network", HOW),
        ("10.0.0/24", "'10.0.0/24' is no network", HOW),
        ("10.0.0.0/24:80", "'10.0.0.0/24:80' is no network", HOW),
        ("host/24", "'host/24' is no network", HOW),
        ("10.1.2.3/24", "'10.1.2.3/24' is not written as its network is", "write `10.1.2.0/24`"),
        ("FD00::/64", "'FD00::/64' is not written as its network is", "write `fd00::/64`"),
        ("0.0.0.0/0", "`0.0.0.0/0` is no private network", f"write one within {PRIVATE}"),
        ("10.0.0.0/7", "`10.0.0.0/7` is no private network", f"write one within {PRIVATE}"),
        ("127.0.0.0/8", "`127.0.0.0/8` is no private network", f"write one within {PRIVATE}"),
        ("169.254.0.0/16", "`169.254.0.0/16` is no private network", f"write one within {PRIVATE}"),
        ("198.51.100.0/24", "`198.51.100.0/24` is no private network", f"write one within {PRIVATE}"),
        ("fd00:ec2::/64", "`fd00:ec2::/64` is no private network", f"write one within {PRIVATE}"),
        ("fe80::/64", "`fe80::/64` is no private network", f"write one within {PRIVATE}"),
    ],
)
def test_every_other_target_is_told_what_is_wrong_with_it(text: str, what: str, hint: str) -> None:
    with pytest.raises(Unfit) as unfit:
        parse_target(text)
    assert (unfit.value.what, unfit.value.hint) == (what, hint)


@each(
    ("name", "what"),
    [
        ("Ollama", "'Ollama' is no name of a host service"),
        ("a.b", "'a.b' is no name of a host service"),
        ("a_b", "'a_b' is no name of a host service"),
        ("1", "'1' is no name of a host service"),
        ("-a", "'-a' is no name of a host service"),
        ("", "'' is no name of a host service"),
        ("a" * 64, f"'{'a' * 64}' is no name of a host service"),
        ("localhost", "`localhost` cannot be asked for through the proxy"),
        ("host", "`host` cannot be asked for through the proxy"),
    ],
)
def test_a_name_is_one_word_that_can_stand_in_a_url(name: str, what: str) -> None:
    assert parse_host_service_name("ollama-2") == "ollama-2"
    with pytest.raises(Unfit) as unfit:
        parse_host_service_name(name)
    assert unfit.value.what == what


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
def test_a_place_is_asked_for_by_its_name_or_its_address(asked: tuple[str, int], found: HostService | None) -> None:
    assert find_host_service(rows(), *asked) == found


def test_the_highest_layer_says_where_a_place_leads() -> None:
    higher = [*rows(), host_service_row("ollama", parse_target("host:11434"), ())]
    other = HostServiceRow(name="x", asked=parse_host_pattern("ollama"), ports=frozenset({11434}), to="db.internal")
    assert find_host_service([*higher, other], "ollama", 11434) == HostService(name="x", to="db.internal", port=11434)
