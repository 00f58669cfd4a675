import pytest

from agent_sandbox.policy.match.private_hosts import NOTHING_LIFTS, how_to_name, why_private
from table_tests import each


@each(
    "host",
    [
        "db",
        "localhost",
        "a.localhost",
        "printer.local",
        "host.docker.internal",
        "metadata.google.internal",
        "nas.lan",
        "router.home",
        "x.home.arpa",
        "wiki.corp",
        "x.intranet",
        "x.private",
        "localhost.localdomain",
    ],
)
def test_names_outside_the_public_dns_are_private(host: str) -> None:
    assert why_private(host) == "can only be a private host"


@each("host", ["example.com", "local.example.com", "internal.test", "arpa.test", "203.0.113.7"])
def test_other_hosts_can_be_public(host: str) -> None:
    assert why_private(host) is None


@pytest.mark.parametrize(("host", "kind"), [("10.0.0.1", "private"), ("::1", "unspecified, loopback or v4-compatible")])
def test_names_the_kind_of_a_private_address(host: str, kind: str) -> None:
    assert why_private(host) == f"is not a public address ({kind})"


@each(
    ("host", "hint"),
    [
        ("db.internal", "add it under `host_services`: `NAME: {to: db.internal:80}`"),
        ("10.0.0.1", "add it under `host_services`: `NAME: {to: 10.0.0.1:80}`"),
        ("fd00::1", 'add it under `host_services`: `NAME: {to: "[fd00::1]:80"}`'),
        ("localhost", "add the Docker host under `host_services`: `NAME: {to: host:80}`"),
        ("a.localhost", "add the Docker host under `host_services`: `NAME: {to: host:80}`"),
        ("127.0.0.1", "add the Docker host under `host_services`: `NAME: {to: host:80}`"),
        ("169.254.169.254", NOTHING_LIFTS),
        ("100.100.100.200", NOTHING_LIFTS),
    ],
)
def test_suggests_how_to_allow_a_private_host(host: str, hint: str) -> None:
    assert how_to_name(host, 80) == hint
