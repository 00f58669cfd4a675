from collections.abc import Callable

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.front.connect import ConnectDeniedError, Opened, decide_tunnel
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.http1_head import BadHeadError, parse_request


def decide(target: str, policy: Policy, fields: str = "") -> Opened:
    head = parse_request(f"CONNECT {target} HTTP/1.1\r\n{fields}\r\n".encode(), Limits())
    return decide_tunnel(head, lambda: policy)


def test_opens_a_tunnel_to_an_allowed_host(policy: Callable[[str], Policy]) -> None:
    got = decide("A.test:443", policy("domains: [a.test]"), "Host: a.test\r\n")
    assert (got.host, got.port, got.decision.allowed) == ("a.test", 443, True)


def test_opens_a_tunnel_to_a_denied_name_with_its_denial(policy: Callable[[str], Policy]) -> None:
    got = decide("b.test:443", policy("domains: [a.test]"))
    assert not got.decision.allowed


def test_a_decision_holds_until_the_policy_is_replaced(policy: Callable[[str], Policy]) -> None:
    current = policy("domains: [a.test]")
    got = decide("a.test:443", current)
    assert got.under(current) is got.decision
    assert not got.under(policy("domains: [b.test]")).allowed


@pytest.mark.parametrize(("target", "port"), [("a.test:22", 22), ("203.0.113.7:443", 443), ("[2001:db8::1]:443", 443)])
def test_denies_connect_to_an_unlisted_port_or_address_at_once(
    policy: Callable[[str], Policy], target: str, port: int
) -> None:
    with pytest.raises(ConnectDeniedError) as caught:
        decide(target, policy("domains: [a.test]"))
    assert caught.value.port == port


def test_a_denied_connect_has_a_complete_denial(policy: Callable[[str], Policy]) -> None:
    with pytest.raises(ConnectDeniedError) as caught:
        decide("b.test:22", policy("domains: [a.test]\nsettings: {block_status: 418}"))
    assert caught.value.denial == Denial(
        status=418,
        reason="no rule allows host b.test",
        host="b.test",
        method="CONNECT",
        hint="run `agent-sandbox policy allow b.test` on the host machine",
    )


@pytest.mark.parametrize(
    ("target", "fields", "problem"),
    [
        ("a.test", "", "ambiguous: the port is missing"),
        ("a.test:443", "Host: b.test\r\n", "the Host header of a CONNECT names a different host"),
        ("a.test:443", "Host: a test\r\n", "ambiguous: not a host name: 'a test'"),
        ("a.test:443", "Content-Length: 1\r\n", "CONNECT with a body"),
    ],
)
def test_rejects_a_malformed_connect(policy: Callable[[str], Policy], target: str, fields: str, problem: str) -> None:
    with pytest.raises(BadHeadError) as caught:
        decide(target, policy("domains: [a.test]"), fields)
    assert problem == str(caught.value)


def test_a_tunnel_is_opened_for_a_request_that_a_person_would_be_asked_about(policy: Callable[[str], Policy]) -> None:
    head = parse_request(b"CONNECT b.test:8443 HTTP/1.1\r\n\r\n", Limits())
    got = decide_tunnel(
        head, lambda: policy("domains: [a.test]"), lambda host, port, _: (host, port) == ("b.test", 8443)
    )
    assert not got.decision.allowed
