import pytest

from agent_sandbox.policy import Ambiguous, Policy, Request
from agent_sandbox.policytools.requestline import read_request
from agent_sandbox.problems import UserError

NOTHING = Policy.deny_all("x")


@pytest.mark.parametrize(
    ("url", "host", "port", "target"),
    [
        ("https://example.org", "example.org", 443, "/"),
        ("HTTP://Example.ORG./a", "example.org", 80, "/a"),
        ("https://example.org:8443?x=/y", "example.org", 8443, "/?x=/y"),
        ("https://[::1]:1/a", "::1", 1, "/a"),
        ("https://example.org/a#b", "example.org", 443, "/a"),
    ],
)
def test_a_url_is_read_as_a_client_would_send_it(url: str, host: str, port: int, target: str) -> None:
    got = read_request(NOTHING, "GET", url)
    assert (got.host, got.port, got.target) == (host, port, target)
    assert isinstance(got, Request)


@pytest.mark.parametrize("url", ["example.org", "ftp://example.org/", "", "https:/example.org"])
def test_what_is_no_url_is_a_problem(url: str) -> None:
    with pytest.raises(UserError, match="is no http or https URL; write it as https://host/path"):
        read_request(NOTHING, "GET", url)


@pytest.mark.parametrize("url", ["https://me@example.org/", "https://example.org:0/", "https:///a", "https://a b/"])
def test_a_doubtful_authority_is_ambiguous(url: str) -> None:
    with pytest.raises(Ambiguous):
        read_request(NOTHING, "GET", url)
