from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from mitmproxy import http
from mitmproxy.flow import Error
from mitmproxy.test import tflow

from agent_sandbox.policy import Decision, Effect, Policy
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.explain.package_manager import PackageManager
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.proxy.audit.record import Event
from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.exchange.exchange import NOT_DECIDED, Exchange, exchange_of
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.escaped_text import EscapedText
from agent_sandbox.proxy.secrets.injector import Injector
from agent_sandbox.proxy.secrets.store import put_secret
from agent_sandbox.proxy.tunnel import Carries, Tunnel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TUNNEL = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443)
RULES = "domains: [{host: a.test, rules: [{methods: [GET], path: {prefix: /api/}}]}]"
NO = Decision(effect=Effect.DENY, rule=None, origin=None, reason="not at all")


def flow(path: str = "/api/x", *fields: tuple[bytes, bytes], host: bytes = b"a.test") -> http.HTTPFlow:
    made = tflow.tflow()
    data = made.request.data
    data.headers = http.Headers([(b"Host", host), *fields])
    data.path, data.authority, data.host, data.port, data.scheme = path.encode(), b"", "x.test", 1, b"http"
    return made


def enforce(made: http.HTTPFlow, policy: Policy, tunnel: Tunnel = TUNNEL) -> Exchange:
    Enforcer(lambda: policy, clock=lambda: 5.0).requestheaders(made, tunnel)
    exchange = exchange_of(made)
    assert exchange
    return exchange


def test_allowed_request_is_forwarded_in_canonical_form(policy: Callable[[str], Policy]) -> None:
    made = flow("/%61pi/x?y", (b"X-Method-Override", b"PUT"))
    exchange = enforce(made, policy(RULES))
    data = made.request.data
    assert made.response is None
    assert made.request.stream is exchange.sent
    assert (data.scheme, data.host, data.port, data.path, data.authority) == (b"https", "a.test", 443, b"/api/x?y", b"")
    assert data.headers.fields == ((b"Host", b"a.test"),)
    assert (exchange.line.decision, exchange.line.path, exchange.line.rule) == ("allow", "/api/x", "policy.yaml:2")
    assert exchange.request
    assert exchange.request.url == "https://a.test/api/x?y"


def test_an_allowed_http2_request_has_its_authority(policy: Callable[[str], Policy]) -> None:
    made = flow()
    made.request.data.http_version = b"HTTP/2.0"
    made.request.data.authority = b"A.test:443"
    enforce(made, policy(RULES))
    assert (made.request.data.authority, made.request.data.headers.fields) == (b"a.test", ())


def test_a_denied_request_is_answered_with_the_reason(policy: Callable[[str], Policy]) -> None:
    made = flow("/admin", (b"Expect", b"100-continue"), (b"Accept", b"application/json"))
    exchange = enforce(made, policy(RULES))
    assert made.response
    assert made.request.stream is False
    assert "expect" not in made.request.headers
    body = json.loads(made.response.content or b"")
    assert (made.response.status_code, body["host"], body["path"]) == (403, "a.test", "/admin")
    assert body["hint"].startswith("add `- GET https://a.test/admin` under `allow`")
    line = exchange.line
    assert (line.decision, line.cause, line.reason) == ("deny", "request", body["reason"])
    assert (line.scheme, line.host, line.path) == ("https", "a.test", "/admin")


def test_of_a_path_without_end_the_line_has_the_beginning(policy: Callable[[str], Policy]) -> None:
    made = flow()
    made.request.data.path = b"/\xff" * 30_000
    line = enforce(made, policy(RULES)).line
    assert (line.decision, line.path) == ("deny", r"/\xff" * 4_096)


@pytest.mark.parametrize(
    ("made", "status", "reason"),
    [
        (flow("/api/../x"), 400, "ambiguous: "),
        (flow(host=b"b.test"), 403, "host_mismatch: "),
        (flow("/api/x", (b"Upgrade", b"foo")), 403, "upgrade to 'foo'"),
        (flow("/api/x", (b"Expect", b"x")), 400, "ambiguous: unknown Expect"),
    ],
)
def test_a_doubt_is_a_denial(policy: Callable[[str], Policy], made: http.HTTPFlow, status: int, reason: str) -> None:
    exchange = enforce(made, policy(RULES))
    assert made.response
    assert made.response.status_code == status
    assert exchange.line.reason.startswith(reason)
    assert exchange.line.cause == ""


def test_a_tunnel_that_was_refused_stays_refused_when_the_policy_has_changed(policy: Callable[[str], Policy]) -> None:
    made = flow()
    refused = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443, refused=NO)
    assert enforce(made, policy(RULES), refused).line.reason == "not at all"
    assert made.response
    assert made.response.status_code == 403


def test_the_policy_says_what_status_a_denial_has(policy: Callable[[str], Policy]) -> None:
    made = flow("/no")
    enforce(made, policy(f"{RULES}\nsettings: {{block_status: 418}}"))
    assert made.response
    assert made.response.status_code == 418


def test_what_mitmproxy_calls_malformed_is_left_denied(policy: Callable[[str], Policy]) -> None:
    made = flow()
    made.error = Error("bad header")
    assert enforce(made, policy(RULES)).line.reason == "malformed: bad header"
    assert made.response
    assert made.response.status_code == 403


def test_a_fault_leaves_the_denial_that_was_set_first() -> None:
    made = flow()

    def broken() -> Policy:
        raise LookupError

    with pytest.raises(LookupError):
        Enforcer(broken, clock=lambda: 0.0).requestheaders(made, TUNNEL)
    assert made.response
    assert (made.response.status_code, made.response.headers["x-agent-sandbox"]) == (403, "blocked")
    assert made.request.stream is False


def test_the_health_check_is_known_by_its_question(policy: Callable[[str], Policy]) -> None:
    made = flow("/agent-sandbox-health", host=b"127.0.0.1:9")
    made.request.data.host, made.request.data.port = "127.0.0.1", 9
    own = Tunnel(client="", carries=Carries.PROXY, own=True)
    exchange = enforce(made, policy(RULES), own)
    assert (exchange.line.event, exchange.line.decision) == (Event.HEALTH, "deny")
    origin = Origin(file="p", line=1, layer="none that a file could make")
    asked = Conditions(host=parse_host_pattern("127.0.0.1"))
    allowing = RuleSet(rules=(Rule(effect=Effect.ALLOW, conditions=asked, origin=origin),))
    exchange = enforce(made, Policy.of(allowing), own)
    assert (exchange.line.event, exchange.line.decision) == (Event.REQUEST, "allow")


def test_what_may_follow_is_bounded_as_the_policy_says(policy: Callable[[str], Policy]) -> None:
    rules = "domains: [{host: a.test, rules: [{methods: [GET], max_body: 10}]}]"
    assert enforce(flow(), policy(rules)).sent.limit == 10
    assert enforce(flow(), policy(RULES)).sent.limit is None
    made = flow("/api/x", (b"Content-Length", b"11"))
    assert enforce(made, policy(rules)).line.decision == "deny"


def test_a_denial_names_the_services_that_would_allow_it(policy: Callable[[str], Policy]) -> None:
    made = flow("/no", (b"Accept", b"application/json"))
    current = policy(RULES)
    Enforcer(lambda: current, clock=lambda: 0.0, matching_services=lambda asked, _: [asked.host]).requestheaders(
        made, TUNNEL
    )
    assert made.response
    assert ", or `- a.test` under `services`, " in json.loads(made.response.content or b"")["hint"]


GRAPHQL = """
domains:
  - {host: a.test, rules: [{schemes: [https], path: {exact: /graphql}, graphql: {query: [viewer]}, max_body: 100}]}
"""
JSON = (b"Content-Type", b"application/json")


def asking(*fields: tuple[bytes, bytes], path: str = "/graphql") -> http.HTTPFlow:
    sized = any(name == b"Content-Length" for name, _ in fields)
    made = flow(path, *fields, *(() if sized else [(b"Transfer-Encoding", b"chunked")]))
    made.request.data.method = b"POST"
    return made


def read(made: http.HTTPFlow, body: bytes, *policies: Policy) -> Exchange:
    """Decide the head by the first policy and the body by the last."""
    current = [policies[0]]
    enforcer = Enforcer(lambda: current[0], clock=lambda: 5.0)
    enforcer.requestheaders(made, TUNNEL)
    exchange = exchange_of(made)
    assert exchange
    assert exchange.held
    assert made.response is NOT_DECIDED
    assert made.request.stream is False
    current[0] = policies[-1]
    made.request.data.content = body
    enforcer.request(made, TUNNEL)
    return exchange


def test_what_a_body_asks_for_is_decided_when_it_is_there(policy: Callable[[str], Policy]) -> None:
    made = asking(JSON, (b"Expect", b"100-continue"))
    exchange = read(made, b'{"query": "{viewer{login}}"}', policy(GRAPHQL))
    assert made.response is None
    assert "expect" in made.request.headers
    assert (exchange.line.decision, exchange.line.rule) == ("allow", "policy.yaml:4")
    assert exchange.request
    assert (str(exchange.request.operation), exchange.request.body_size) == ("query viewer", 28)


def test_a_body_that_asks_for_more_is_denied_with_what_it_asked(policy: Callable[[str], Policy]) -> None:
    made = asking(JSON)
    exchange = read(made, b'{"query": "mutation {deleteRef{id}}"}', policy(GRAPHQL))
    assert made.response
    assert made.response.status_code == 403
    assert (exchange.line.decision, exchange.line.cause) == ("deny", "operation")
    assert "graphql mutation deleteRef is not" in exchange.line.reason
    assert exchange.request is None


def test_a_body_that_came_is_decided_by_the_policy_that_is_in_force_then(policy: Callable[[str], Policy]) -> None:
    made = asking(JSON)
    exchange = read(made, b'{"query": "{viewer{login}}"}', policy(GRAPHQL), policy(RULES))
    assert exchange.line.decision == "deny"
    assert made.response


def test_a_body_may_be_as_large_as_the_rule_says_and_no_larger(policy: Callable[[str], Policy]) -> None:
    exchange = read(asking(JSON), b'{"query": "{viewer{login}}"}' + b" " * 100, policy(GRAPHQL))
    assert (exchange.line.decision, exchange.line.cause) == ("deny", "request")


@pytest.mark.parametrize(
    "made",
    [
        asking(),
        asking((b"Content-Type", b"text/plain")),
        asking(JSON, (b"Content-Length", b"0")),
        asking(JSON, (b"Content-Length", b"101")),
        asking(JSON, path="/graphql?query={viewer}"),
        asking(JSON, path="/other"),
    ],
)
def test_what_no_body_could_make_allowed_is_denied_at_its_head(
    policy: Callable[[str], Policy], made: http.HTTPFlow
) -> None:
    exchange = enforce(made, policy(GRAPHQL))
    assert not exchange.held
    assert made.response is not NOT_DECIDED
    assert exchange.line.decision == "deny"


def test_no_body_is_read_for_a_tunnel_that_was_refused(policy: Callable[[str], Policy]) -> None:
    refused = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443, refused=NO)
    exchange = enforce(asking(JSON), policy(GRAPHQL), refused)
    assert not exchange.held
    assert exchange.line.decision == "deny"


def test_too_many_bodies_at_once_are_told_so(policy: Callable[[str], Policy]) -> None:
    made, current = asking(JSON, (b"Expect", b"100-continue")), policy(GRAPHQL)
    Enforcer(lambda: current, clock=lambda: 5.0, limits=Limits(bodies_held=0)).requestheaders(made, TUNNEL)
    exchange = exchange_of(made)
    assert exchange
    assert made.response
    assert (made.response.status_code, exchange.held) == (429, False)
    assert exchange.line.reason == "too many request bodies are being read at once"
    assert "expect" not in made.request.headers


def test_the_end_of_a_body_that_was_not_held_decides_nothing(policy: Callable[[str], Policy]) -> None:
    made, current = flow(), policy(RULES)
    enforcer = Enforcer(lambda: current, clock=lambda: 5.0)
    enforcer.request(made, TUNNEL)
    assert made.response is None
    enforcer.requestheaders(made, TUNNEL)
    enforcer.request(made, TUNNEL)
    assert made.response is None


def test_a_denial_names_the_service_that_is_resolved_for_who_asks(policy: Callable[[str], Policy]) -> None:
    made = flow("/no", (b"Accept", b"application/json"), (b"User-Agent", b"pip/24.0"))
    current = policy(RULES)
    pip = PackageManager(tool="pip", service="python", clients=(), paths=())
    enforcer = Enforcer(
        lambda: current, clock=lambda: 0.0, package_manager=lambda asked: pip if asked.headers else None
    )
    enforcer.requestheaders(made, TUNNEL)
    assert made.response
    assert f", or for all that pip fetches: {pip.way}, then: " in json.loads(made.response.content or b"")["hint"]
    exchange = exchange_of(made)
    assert exchange
    assert exchange.line.tool == "pip"


SECRETIVE = """
domains:
- host: a.test
  transform: {request: {headers: {Authorization: {secret: token, transform: {type: bearer}}}}}
  rules: [{methods: [GET]}]
- {host: a.test, rules: [{path: {prefix: /open/}}]}
"""


def filled(made: http.HTTPFlow, policy: Policy, folder: Path) -> Exchange:
    Enforcer(lambda: policy, clock=lambda: 5.0, injector=Injector(folder)).requestheaders(made, TUNNEL)
    exchange = exchange_of(made)
    assert exchange
    return exchange


def test_a_secret_is_put_in_and_remembered_by_what_its_echo_looks_like(
    policy: Callable[[str], Policy], tmp_path: Path
) -> None:
    put_secret(tmp_path, "token", ["a.test"], b"correct horse")
    made = flow("/api/x", (b"Accept-Encoding", b"gzip"))
    exchange = filled(made, policy(SECRETIVE), tmp_path)
    assert made.response is None
    assert made.request.headers.fields == (
        (b"Host", b"a.test"),
        (b"authorization", b"Bearer correct horse"),
        (b"accept-encoding", b"identity"),
    )
    assert EscapedText(b"correct horse") in exchange.echoes
    assert exchange.request is not None
    assert exchange.request.secrets
    assert (exchange.line.decision, exchange.line.rule) == ("allow", "policy.yaml:6")
    assert exchange.line.reason == "allowed by policy.yaml:6, with secret token in authorization"


def test_without_it_the_request_is_denied_with_what_is_missing(policy: Callable[[str], Policy], tmp_path: Path) -> None:
    made = flow("/api/x", (b"Accept", b"application/json"))
    exchange = filled(made, policy(SECRETIVE), tmp_path)
    assert made.response
    told = json.loads(made.response.content or b"")
    assert (told["reason"], told["rule"], told["hint"]) == (
        "the proxy has no secret token",
        "policy.yaml:6",
        "agent-sandbox secret set token --host a.test",
    )
    assert (exchange.line.decision, exchange.line.cause, exchange.line.reason) == ("deny", "injection", told["reason"])
    assert (exchange.request, exchange.echoes) == (None, ())


def test_what_goes_without_it_as_well_goes_as_it_is(policy: Callable[[str], Policy], tmp_path: Path) -> None:
    made = flow("/open/x")
    exchange = filled(made, policy(SECRETIVE), tmp_path)
    assert made.request.headers.fields == ((b"Host", b"a.test"),)
    assert (exchange.line.decision, exchange.line.rule, exchange.echoes) == ("allow", "policy.yaml:7", ())
