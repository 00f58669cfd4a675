import pytest

from agent_sandbox.policytools.suggest.noise_filter import PRIVATE, RESERVED, why_not_suggested


@pytest.mark.parametrize(
    "host", ["agent-sandbox.invalid", "invalid", "192.0.2.1", "198.51.100.1", "203.0.113.9", "2001:db8::1"]
)
def test_does_not_suggest_reserved_names_and_addresses(host: str) -> None:
    assert why_not_suggested(host) == RESERVED


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "a.local",
        "nas",
        "a.home.arpa",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "7",
        "",
        "a.onion",
        "db.intranet",
    ],
)
def test_does_not_suggest_private_hosts(host: str) -> None:
    assert why_not_suggested(host) == PRIVATE


@pytest.mark.parametrize("host", ["example.com", "a.test", "invalid.example.com", "198.51.99.1", "2606:4700::1"])
def test_suggests_other_hosts(host: str) -> None:
    assert why_not_suggested(host) == ""
