from collections.abc import Callable

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Decision, Effect, parse_request
from agent_sandbox.proxy.exchange.exchange import Exchange, OverBudget, open_exchange
from agent_sandbox.proxy.exchange.review import outlived, revoke
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead
from policy_texts import PolicyOf

HEAD = RequestHead(b"GET", b"/x", b"HTTP/1.1", (), b"", "a.test", 443, b"https")
REQUEST = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/x")
YES = Decision(effect=Effect.ALLOW, rule="policy.yaml:2", origin=None, reason="yes")
NO = replace(YES, effect=Effect.DENY)
TUNNEL = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443, decision=YES)


def allowed() -> Exchange:
    exchange = open_exchange(HEAD, TUNNEL, started=0.0)
    exchange.allow(YES, REQUEST, HEAD)
    return exchange


@pytest.fixture
def change(policy: PolicyOf) -> Callable[[str], PolicyTransition]:
    return lambda new: PolicyTransition(old=policy("domains: [a.test]"), new=policy(new))


def test_an_allowed_request_that_the_new_policy_denies_is_aborted_once(
    change: Callable[[str], PolicyTransition],
) -> None:
    exchange, revision = allowed(), change("domains: [b.test]")
    denial = revoke(exchange, revision)
    assert denial is not None
    assert denial.reason.startswith("the policy was reloaded: ")
    assert (denial.status, exchange.allowed, exchange.aborted) == (403, False, denial)
    assert revoke(exchange, revision) is None


def test_a_request_that_stays_allowed_gets_the_new_body_limit(change: Callable[[str], PolicyTransition]) -> None:
    exchange = allowed()
    assert revoke(exchange, change("domains: [{host: a.test, rules: [{max_body: 7}]}]")) is None
    assert (exchange.allowed, exchange.sent.limit) == (True, 7)


def test_a_request_that_stays_allowed_counts_against_the_new_budgets(change: Callable[[str], PolicyTransition]) -> None:
    exchange = allowed()
    exchange.spender = lambda budgeted: lambda *_: OverBudget(str(budgeted[0].budget), 9)
    assert revoke(exchange, change("domains: [{host: a.test, budget: {upload: 1KiB/day}}]")) is None
    assert exchange.spend("upload", 1) == OverBudget("1KiB of upload per day", 9)
    assert exchange.received.spend is exchange.spend


def test_a_request_that_is_not_allowed_is_not_revoked(change: Callable[[str], PolicyTransition]) -> None:
    assert revoke(open_exchange(HEAD, TUNNEL, started=0.0), change("domains: [b.test]")) is None


@pytest.mark.parametrize(
    ("tunnel", "new", "waited", "wanted"),
    [
        (TUNNEL, "domains: [a.test]", False, False),
        (TUNNEL, "domains: [b.test]", False, True),
        (replace(TUNNEL, carries=Carries.PROXY), "domains: [b.test]", False, False),
        (replace(TUNNEL, decision=NO), "domains: [b.test]", False, False),
        (replace(TUNNEL, decision=NO), "domains: [a.test]", False, True),
        (replace(TUNNEL, decision=NO), "domains: [a.test]", True, False),
    ],
)
def test_a_tunnel_is_closed_when_its_decision_changes(
    change: Callable[[str], PolicyTransition], tunnel: Tunnel, new: str, *, waited: bool, wanted: bool
) -> None:
    assert outlived(tunnel, change(new), waited=waited) is wanted
