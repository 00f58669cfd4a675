import pytest

from agent_sandbox.policytools.suggest.noise_filter import PRIVATE, RESERVED, why_not_suggested


@pytest.mark.parametrize(
    "host", ["agent-sandbox.invalid", "invalid", "192.0.2.1", "198.51.100.1", "203.0.113.9", "2001:db8::1"]
)
def test_what_is_nobodys_is_no_wish_whoever_asks(host: str) -> None:
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
def test_a_private_host_is_none_either(host: str) -> None:
    assert why_not_suggested(host) == PRIVATE


@pytest.mark.parametrize("host", ["example.com", "a.test", "invalid.example.com", "198.51.99.1", "2606:4700::1"])
def test_all_others_may_have_been_wanted(host: str) -> None:
    assert why_not_suggested(host) == ""
