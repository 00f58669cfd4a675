import json

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Decision, Effect, Policy, Request, compile_policy, parse_request
from agent_sandbox.policy.http.graphql_body import with_body
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.proxy.decide import known_ids
from agent_sandbox.proxy.decide.known_ids import KnownIds
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead
from policy_texts import PolicyOf

TUNNEL = Tunnel(client="192.0.2.1", carries=Carries.TLS, host="api.github.com", port=443)
HEAD = RequestHead(b"POST", b"/graphql", b"HTTP/1.1", (), b"", "api.github.com", 443)


@pytest.fixture(scope="module")
def named() -> Policy:
    text = "services: [{name: github, repos: [o/app, o/lib], api: {access: readwrite}}]"
    services = shipped_services()
    return compile_policy([parse_layer(text, name="project", file="p", shown="p", services=services)], services)


def asked(document: str) -> Request:
    kind = (("content-type", "application/json"),)
    request = parse_request(
        scheme="https", host="api.github.com", port=443, method="POST", target="/graphql", headers=kind
    )
    return with_body(request, json.dumps({"query": document}).encode())


def exchange_of(request: Request) -> Exchange:
    exchange = open_exchange(HEAD, TUNNEL, started=0.0)
    allow = Decision(effect=Effect.ALLOW, rule="r", origin=None, reason="")
    exchange.allow(allow, request, HEAD)
    return exchange


def learned(ids: KnownIds, policy: Policy, answer: bytes, name: str = "app") -> dict[str, str]:
    exchange = exchange_of(asked(f'{{ repository(owner: "o", name: "{name}") {{ issue(number: 1) {{ id }} }} }}'))
    ids.expect(exchange, policy)
    assert exchange.received.copied is not None
    exchange.received.copied += answer
    ids.learn(exchange, policy)
    assert exchange.received.copied is None
    operation = ids.added_to(asked("{ viewer { login } }")).operation
    assert operation
    return dict(operation.known)


def answer_with(name: str) -> bytes:
    return json.dumps({"data": {"repository": {"issue": {"id": name}}}}).encode()


def test_learns_ids_from_responses(named: Policy) -> None:
    ids = KnownIds()
    assert learned(ids, named, answer_with("I_1")) == {"I_1": "o/app"}
    assert learned(ids, named, answer_with("I_2"), "lib") == {"I_1": "o/app", "I_2": "o/lib"}


@pytest.mark.parametrize("answer", [b"", b"not JSON", b"[]", b'{"errors": []}', b'{"data": {"repository": null}}'])
def test_learns_nothing_from_other_responses(named: Policy, answer: bytes) -> None:
    assert learned(KnownIds(), named, answer) == {}


def test_forgets_the_oldest_ids(named: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "MAX_IDS", 2)
    ids = KnownIds()
    found = [learned(ids, named, answer_with(name)) for name in ("I_1", "I_2", "I_1", "I_3")]
    assert [*found[-1]] == ["I_1", "I_3"]


def test_copies_only_responses_to_confined_operations(policy: PolicyOf, named: Policy) -> None:
    plain = policy("domains: [{host: api.github.com, rules: [{path: {exact: /graphql}, graphql: {query: [viewer]}}]}]")
    ids = KnownIds()
    for request, known in ((asked("{ viewer { login } }"), plain), (asked("{ licenses { name } }"), named)):
        exchange = exchange_of(request)
        ids.expect(exchange, known)
        assert exchange.received.copied is None
        ids.learn(exchange, known)
    undecided = open_exchange(HEAD, TUNNEL, started=0.0)
    ids.expect(undecided, named)
    assert undecided.received.copied is None


def test_leaves_a_request_without_an_operation_unchanged() -> None:
    request = replace(asked("{ viewer { login } }"), operation=None)
    assert KnownIds().added_to(request) is request
