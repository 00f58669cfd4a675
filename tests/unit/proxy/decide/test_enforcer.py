import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Decision, Effect, Policy, Request, compile_policy, decide_connect, parse_request
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_set import Budgeted, RuleSet
from agent_sandbox.policy.explain.offer import offer_for
from agent_sandbox.policy.explain.package_manager import PackageManager
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.proxy.ask.questions import Questions
from agent_sandbox.proxy.decide.enforcer import Enforcer, _refusal
from agent_sandbox.proxy.decide.own_page import OwnPage
from agent_sandbox.proxy.decide.service_hints import ServiceHints
from agent_sandbox.proxy.exchange.exchange import (
    MESSAGE,
    NOT_DECIDED,
    OPERATION,
    Exchange,
    Outcome,
    OverBudget,
    Spend,
    open_exchange,
)
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.escaped_text import EscapedText
from agent_sandbox.proxy.secrets.injector import Injector
from agent_sandbox.proxy.secrets.login import Refresher, placeholders_of, put_login
from agent_sandbox.proxy.secrets.placeholder import Placeholders
from agent_sandbox.proxy.secrets.store import put_secret
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead
from policy_texts import PolicyOf
from table_tests import each

TUNNEL = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443)
RULES = "domains: [{host: a.test, rules: [{methods: [GET], path: {prefix: /api/}}]}]"
NO = Decision(effect=Effect.DENY, rule=None, origin=None, reason="not at all")


def asked(path: str = "/api/x", *fields: tuple[bytes, bytes], host: bytes = b"a.test") -> RequestHead:
    return RequestHead(b"GET", path.encode(), b"HTTP/1.1", ((b"Host", host), *fields), b"", "x.test", 1, b"http")


def opened(head: RequestHead, tunnel: Tunnel = TUNNEL) -> Exchange:
    return open_exchange(head, tunnel, started=5.0)


def enforce(head: RequestHead, policy: Policy, tunnel: Tunnel = TUNNEL) -> Exchange:
    exchange = opened(head, tunnel)
    Enforcer(lambda: policy, clock=lambda: 5.0).requestheaders(exchange, tunnel)
    return exchange


def told(exchange: Exchange) -> dict[str, str]:
    """Return the body of a denial."""
    assert exchange.answer
    assert exchange.forwarded is None
    fields: dict[str, str] = json.loads(exchange.answer.body)
    return fields


def status(exchange: Exchange) -> int:
    assert exchange.answer
    assert exchange.forwarded is None
    return exchange.answer.status


def test_allowed_request_is_forwarded_in_canonical_form(policy: PolicyOf) -> None:
    exchange = enforce(asked("/%61pi/x?y", (b"X-Method-Override", b"PUT")), policy(RULES))
    assert exchange.forwarded == RequestHead(
        b"GET", b"/api/x?y", b"HTTP/1.1", ((b"Host", b"a.test"),), b"", "a.test", 443, b"https"
    )
    assert (exchange.allowed, exchange.path, exchange.outcome.rule) == (True, "/api/x", "policy.yaml:2")
    assert exchange.request
    assert exchange.request.url == "https://a.test/api/x?y"


def test_a_push_is_denied_at_its_first_request_with_the_command_that_allows_it(policy: PolicyOf) -> None:
    exchange = enforce(asked("/o/r.git/info/refs?service=git-receive-pack"), policy(RULES.replace("/api/", "/")))
    nearest = "policy.yaml:2 allows GET, HEAD a.test/..."
    reason = "this request starts a git push, which is denied: host a.test is allowed, method POST is not"
    hint = "run `agent-sandbox policy allow 'POST https://a.test/o/r.git/git-receive-pack'` on the host machine"
    said = told(exchange)
    assert (said["reason"], said["path"]) == (f"{reason}: {nearest}", "/o/r.git/info/refs")
    assert said["hint"] == hint
    assert exchange.record(now=6.0).tool == "git push"


def test_an_allowed_http2_request_is_forwarded_with_its_authority(policy: PolicyOf) -> None:
    head = replace(asked(), version=b"HTTP/2.0", authority=b"A.test:443")
    exchange = enforce(head, policy(RULES))
    assert exchange.forwarded
    assert (exchange.forwarded.authority, exchange.forwarded.fields) == (b"a.test", ())


def test_a_denied_request_is_answered_with_the_reason(policy: PolicyOf) -> None:
    exchange = enforce(asked("/admin", (b"Accept", b"application/json")), policy(RULES))
    body = told(exchange)
    assert (status(exchange), body["host"], body["path"]) == (403, "a.test", "/admin")
    assert body["hint"] == "run `agent-sandbox policy allow 'GET https://a.test/admin'` on the host machine"
    assert exchange.outcome == Outcome(Effect.DENY, body["reason"], None, "request")
    assert (exchange.scheme, exchange.host, exchange.path) == ("https", "a.test", "/admin")


def test_the_record_of_a_denial_cuts_a_very_long_path(policy: PolicyOf) -> None:
    exchange = enforce(replace(asked(), target=b"/\xff" * 30_000), policy(RULES))
    assert (exchange.allowed, exchange.path) == (False, r"/\xff" * 4_096)


@pytest.mark.parametrize(
    ("head", "code", "reason"),
    [
        (asked("/api/../x"), 400, "ambiguous: "),
        (asked(host=b"b.test"), 403, "host_mismatch: "),
        (asked("/api/x", (b"Upgrade", b"foo")), 403, "upgrade to 'foo'"),
        (asked("/api/x", (b"Expect", b"x")), 400, "ambiguous: unknown Expect"),
    ],
)
def test_denies_ambiguous_requests(policy: PolicyOf, head: RequestHead, code: int, reason: str) -> None:
    exchange = enforce(head, policy(RULES))
    assert status(exchange) == code
    assert exchange.outcome.reason.startswith(reason)
    assert exchange.outcome.cause == ""


def test_a_refused_tunnel_stays_refused_after_a_policy_change(policy: PolicyOf) -> None:
    refused = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443, decision=NO)
    exchange = enforce(asked(), policy(RULES), refused)
    assert (status(exchange), exchange.outcome.reason) == (403, "not at all")


def test_the_policy_sets_the_status_of_denials(policy: PolicyOf) -> None:
    assert status(enforce(asked("/no"), policy(f"{RULES}\nsettings: {{block_status: 418}}"))) == 418


def test_denies_what_mitmproxy_reports_as_malformed(policy: PolicyOf) -> None:
    exchange, current = opened(asked()), policy(RULES)
    exchange.malformed = "bad header"
    Enforcer(lambda: current, clock=lambda: 5.0).requestheaders(exchange, TUNNEL)
    assert (exchange.forwarded, exchange.outcome.reason) == (None, "malformed: bad header")


def test_an_error_while_deciding_leaves_the_request_denied() -> None:
    exchange = opened(asked())

    def broken() -> Policy:
        raise LookupError

    with pytest.raises(LookupError):
        Enforcer(broken, clock=lambda: 0.0).requestheaders(exchange, TUNNEL)
    assert (exchange.forwarded, exchange.outcome) == (None, NOT_DECIDED)


def test_recognises_the_health_check_by_its_request(policy: PolicyOf) -> None:
    head = replace(asked("/agent-sandbox-health", host=b"127.0.0.1:9"), host="127.0.0.1", port=9)
    own = Tunnel(client="", carries=Carries.PROXY, own=True)
    exchange = enforce(head, policy(RULES), own)
    assert (exchange.event, exchange.allowed) == (Event.HEALTH, False)
    origin = Origin(file="p", line=1, layer="none that a file could make")
    where = Conditions(host=parse_host_pattern("127.0.0.1"))
    allowing = RuleSet(rules=(Rule(effect=Effect.ALLOW, conditions=where, origin=origin),))
    exchange = enforce(head, Policy.of(allowing), own)
    assert (exchange.event, exchange.allowed) == (Event.REQUEST, True)


def test_limits_the_body_as_the_policy_says(policy: PolicyOf) -> None:
    rules = "domains: [{host: a.test, rules: [{methods: [GET], max_body: 10}]}]"
    assert enforce(asked(), policy(rules)).sent.limit == 10
    assert enforce(asked(), policy(RULES)).sent.limit is None
    assert not enforce(asked("/api/x", (b"Content-Length", b"11")), policy(rules)).allowed


def test_a_denial_names_the_services_that_would_allow_it(policy: PolicyOf) -> None:
    exchange, current = opened(asked("/no", (b"Accept", b"application/json"))), policy(RULES)
    Enforcer(lambda: current, clock=lambda: 0.0, matching_services=lambda one, _: [one.host]).requestheaders(
        exchange, TUNNEL
    )
    ways = "`agent-sandbox policy allow 'GET https://a.test/no'`, or `agent-sandbox policy allow a.test`"
    assert told(exchange)["hint"] == f"run {ways} on the host machine"


def test_a_denial_names_the_service_of_a_registry_first(policy: PolicyOf) -> None:
    exchange, current = opened(asked("/no", (b"Accept", b"application/json"))), policy(RULES)
    Enforcer(lambda: current, clock=lambda: 0.0, matching_services=lambda *_: ["rust"]).requestheaders(exchange, TUNNEL)
    ways = "`agent-sandbox policy allow rust`, or `agent-sandbox policy allow 'GET https://a.test/no'`"
    assert told(exchange)["hint"] == f"run {ways} on the host machine"


GRAPHQL = """
domains:
  - {host: a.test, rules: [{schemes: [https], path: {exact: /graphql}, graphql: {query: [viewer]}, max_body: 100}]}
"""
JSON = (b"Content-Type", b"application/json")


def asking(*fields: tuple[bytes, bytes], path: str = "/graphql") -> RequestHead:
    sized = any(name == b"Content-Length" for name, _ in fields)
    head = asked(path, *fields, *(() if sized else [(b"Transfer-Encoding", b"chunked")]))
    return replace(head, method=b"POST")


def read(head: RequestHead, body: bytes, *policies: Policy) -> Exchange:
    """Decide the head by the first policy and the body by the last."""
    current = [policies[0]]
    enforcer, exchange = Enforcer(lambda: current[0], clock=lambda: 5.0), opened(head)
    enforcer.requestheaders(exchange, TUNNEL)
    assert exchange.held
    assert (exchange.answer, exchange.forwarded) == (None, None)
    current[0] = policies[-1]
    exchange.body = body
    enforcer.request(exchange, TUNNEL)
    return exchange


def test_decides_on_the_operation_once_the_body_has_arrived(policy: PolicyOf) -> None:
    exchange = read(asking(JSON), b'{"query": "{viewer{login}}"}', policy(GRAPHQL))
    assert exchange.forwarded
    assert (exchange.allowed, exchange.outcome.rule) == (True, "policy.yaml:4")
    assert exchange.request
    assert (str(exchange.request.operation), exchange.request.body_size) == ("query viewer", 28)


def test_denies_a_body_with_another_operation_and_names_it(policy: PolicyOf) -> None:
    exchange = read(asking(JSON), b'{"query": "mutation {deleteRef{id}}"}', policy(GRAPHQL))
    assert (status(exchange), exchange.outcome.cause) == (403, "operation")
    assert "graphql mutation deleteRef is not" in exchange.outcome.reason
    assert exchange.request is None


def test_decides_on_a_body_with_the_policy_in_force_when_it_arrived(policy: PolicyOf) -> None:
    exchange = read(asking(JSON), b'{"query": "{viewer{login}}"}', policy(GRAPHQL), policy(RULES))
    assert not exchange.allowed
    assert exchange.answer


def test_denies_a_body_larger_than_the_rule_allows(policy: PolicyOf) -> None:
    exchange = read(asking(JSON), b'{"query": "{viewer{login}}"}' + b" " * 100, policy(GRAPHQL))
    assert (exchange.allowed, exchange.outcome.cause) == (False, "request")


@pytest.mark.parametrize(
    "head",
    [
        asking(),
        asking((b"Content-Type", b"text/plain")),
        asking(JSON, (b"Content-Length", b"0")),
        asking(JSON, (b"Content-Length", b"101")),
        asking(JSON, path="/graphql?query={viewer}"),
        asking(JSON, path="/other"),
    ],
)
def test_denies_at_the_head_what_no_body_could_make_allowed(policy: PolicyOf, head: RequestHead) -> None:
    exchange = enforce(head, policy(GRAPHQL))
    assert (exchange.held, exchange.allowed) == (False, False)
    assert exchange.answer


def test_reads_no_body_in_a_refused_tunnel(policy: PolicyOf) -> None:
    refused = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443, decision=NO)
    exchange = enforce(asking(JSON), policy(GRAPHQL), refused)
    assert (exchange.held, exchange.allowed) == (False, False)


def test_answers_429_if_too_many_bodies_are_held(policy: PolicyOf) -> None:
    exchange, current = opened(asking(JSON)), policy(GRAPHQL)
    Enforcer(lambda: current, clock=lambda: 5.0, limits=Limits(bodies_held=0)).requestheaders(exchange, TUNNEL)
    assert (status(exchange), exchange.held) == (429, False)
    assert exchange.outcome.reason == "too many request bodies are being read at once"


def test_the_end_of_a_body_that_was_not_held_changes_no_decision(policy: PolicyOf) -> None:
    exchange, current = opened(asked()), policy(RULES)
    enforcer = Enforcer(lambda: current, clock=lambda: 5.0)
    enforcer.request(exchange, TUNNEL)
    assert exchange.forwarded is None
    enforcer.requestheaders(exchange, TUNNEL)
    before = exchange.forwarded
    enforcer.request(exchange, TUNNEL)
    assert before
    assert exchange.forwarded is before


def test_a_denial_suggests_the_service_of_the_package_manager(policy: PolicyOf) -> None:
    exchange = opened(asked("/no", (b"Accept", b"application/json"), (b"User-Agent", b"pip/24.0")))
    current = policy(RULES)
    pip = PackageManager(tool="pip", service="python", clients=(), paths=())
    enforcer = Enforcer(
        lambda: current, clock=lambda: 0.0, package_manager=lambda asked: pip if asked.headers else None
    )
    enforcer.requestheaders(exchange, TUNNEL)
    assert told(exchange)["hint"].startswith(f"for everything that pip fetches: {pip.way}, or run ")
    assert exchange.tool == "pip"


SECRETIVE = """
domains:
- host: a.test
  transform: {request: {headers: {Authorization: {secret: token, transform: {type: bearer}}}}}
  rules: [{methods: [GET]}]
- {host: a.test, rules: [{path: {prefix: /open/}}]}
"""


PLACEHOLDERS = Placeholders(b"k" * 32)
PLACEHOLDER = PLACEHOLDERS.ending("token").encode()


def filled(head: RequestHead, policy: Policy, folder: Path) -> Exchange:
    exchange = opened(head)
    injector = Injector(folder, placeholders=PLACEHOLDERS)
    Enforcer(lambda: policy, clock=lambda: 5.0, injector=injector).requestheaders(exchange, TUNNEL)
    return exchange


def test_injects_a_secret_and_remembers_its_echoes(policy: PolicyOf, tmp_path: Path) -> None:
    put_secret(tmp_path, "token", ["a.test"], b"correct horse")
    exchange = filled(asked("/api/x", (b"Accept-Encoding", b"gzip")), policy(SECRETIVE), tmp_path)
    assert exchange.forwarded
    assert exchange.forwarded.fields == (
        (b"Host", b"a.test"),
        (b"authorization", b"Bearer correct horse"),
        (b"accept-encoding", b"identity"),
    )
    assert EscapedText(b"correct horse") in exchange.echoes
    assert exchange.request is not None
    assert exchange.request.secrets
    reason = "allowed by policy.yaml:6, with secret token in authorization"
    assert exchange.outcome == Outcome(Effect.ALLOW, reason, "policy.yaml:6")


SIGNING = """
domains:
- host: a.test
  transform: {request: {headers: {Authorization: {secret: aws, transform: {type: sigv4, region: r, service: sqs}}}}}
  rules: [{max_body: 8}]
"""
CLAIM = f"AWS4-HMAC-SHA256 Credential=AKIA{PLACEHOLDERS.ending('aws')}/20260101/r/sqs/aws4_request, SignedHeaders=host"


def sign(policy: Policy | list[Policy], folder: Path, body: bytes | None, *fields: tuple[bytes, bytes]) -> Exchange:
    """Decide the head by the first policy and the body by the last."""
    policies = policy if isinstance(policy, list) else [policy]
    put_secret(folder, "aws", ["a.test"], b"AKIAREAL:the-secret-key")
    signed = (b"Authorization", f"{CLAIM}, Signature={'0' * 64}".encode())
    exchange = opened(replace(asked("/", signed, (b"X-Amz-Date", b"20260101T000000Z"), *fields), method=b"POST"))
    injector = Injector(folder, placeholders=PLACEHOLDERS)
    enforcer = Enforcer(lambda: policies[0], clock=lambda: 5.0, injector=injector)
    enforcer.requestheaders(exchange, TUNNEL)
    assert exchange.held is (body is not None)
    if body is not None:
        assert (exchange.forwarded, exchange.body_limit.size) == (None, 1 << 20)
        del policies[:-1]
        exchange.body = body
        enforcer.request(exchange, TUNNEL)
    return exchange


CHUNKED = (b"Transfer-Encoding", b"chunked")


def test_reads_a_body_before_signing_it(policy: PolicyOf, tmp_path: Path) -> None:
    signatures = set()
    for body in (b"one", b"two"):
        exchange = sign(policy(SIGNING), tmp_path, body, CHUNKED, JSON)
        assert exchange.forwarded
        assert exchange.outcome.reason == "allowed by policy.yaml:6, with secret aws in authorization for sqs in r"
        signatures.add(exchange.forwarded.fields[-1])
    assert len(signatures) == 2


def test_signs_a_request_at_its_head_if_no_body_has_to_be_read(policy: PolicyOf, tmp_path: Path) -> None:
    for fields in ((), (CHUNKED, (b"X-Amz-Content-Sha256", b"a" * 64))):
        exchange = sign(policy(SIGNING), tmp_path, None, *fields)
        assert exchange.forwarded
        assert exchange.forwarded.fields[-1][1].startswith(b"AWS4-HMAC-SHA256 Credential=AKIAREAL/20260101/r/sqs/")


OPERATIONS = SIGNING.replace("max_body: 8", "schemes: [https], path: {exact: /}, graphql: {query: [viewer]}")


@each(
    ("later", "allowed"),
    [(SIGNING, False), (OPERATIONS, True), (OPERATIONS.replace("viewer", "node"), False), (RULES, False)],
)
def test_decides_on_a_body_read_for_signing_with_the_policy_in_force(
    policy: PolicyOf, tmp_path: Path, later: str, *, allowed: bool
) -> None:
    policies = [policy(SIGNING), policy(later)]
    exchange = sign(policies, tmp_path, b'{"query": "{viewer{login}}"}', CHUNKED, JSON)
    assert (exchange.allowed, exchange.held) == (allowed, True)


def test_limits_a_signed_body_as_the_rule_says(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = sign(policy(SIGNING), tmp_path, b"too large", CHUNKED)
    assert (exchange.allowed, exchange.forwarded, exchange.outcome.cause) == (False, None, "request")


def test_denies_a_request_whose_secret_is_missing_and_names_it(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = filled(asked("/api/x", (b"Accept", b"application/json")), policy(SECRETIVE), tmp_path)
    body = told(exchange)
    assert (body["reason"], body["rule"], body["hint"]) == (
        "the proxy has no secret token",
        "policy.yaml:6",
        "agent-sandbox secret set token --host a.test",
    )
    assert exchange.outcome == Outcome(Effect.DENY, body["reason"], "policy.yaml:6", "injection")
    assert (exchange.request, exchange.echoes) == (None, ())


def test_forwards_unchanged_what_is_also_allowed_without_the_secret(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = filled(asked("/open/x"), policy(SECRETIVE), tmp_path)
    assert exchange.forwarded
    assert exchange.forwarded.fields == ((b"Host", b"a.test"),)
    assert (exchange.allowed, exchange.outcome.rule, exchange.echoes) == (True, "policy.yaml:7", ())


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/open/x", (b"Authorization", b"Bearer " + PLACEHOLDER)),
        ("/open/x", (b"X-Anything", b"sk-" + PLACEHOLDER)),
        ("/api/x", (b"X-Anything", b"sk-" + PLACEHOLDER)),
        ("/api/x?key=" + PLACEHOLDER.decode(), (b"A", b"b")),
    ],
)
def test_denies_a_placeholder_that_nothing_replaces(
    policy: PolicyOf, tmp_path: Path, path: str, field: tuple[bytes, bytes]
) -> None:
    if path.startswith("/api"):
        put_secret(tmp_path, "token", ["a.test"], b"correct horse")
    exchange = filled(asked(path, field, (b"Accept", b"application/json")), policy(SECRETIVE), tmp_path)
    place = "URL" if "?" in path else field[0].decode()
    why = f"`{place}` has a placeholder, which the proxy replaces only where the policy and its owner say so"
    assert (exchange.outcome.effect, exchange.outcome.reason, exchange.outcome.cause) == (
        Effect.DENY,
        why,
        "injection",
    )
    assert (exchange.forwarded, exchange.request, exchange.echoes) == (None, None, ())
    assert told(exchange)["reason"] == why


KEEPING = """
domains:
- host: a.test
  transform:
    request:
      headers: {Authorization: {secret: token, transform: {type: bearer}}}
      on_existing_header: keep
"""


def test_keeps_the_clients_credential_and_records_that(policy: PolicyOf, tmp_path: Path) -> None:
    put_secret(tmp_path, "token", ["a.test"], b"correct horse")
    exchange = filled(asked("/x", (b"Authorization", b"Bearer own")), policy(KEEPING), tmp_path)
    assert exchange.forwarded
    assert exchange.forwarded.fields == ((b"Host", b"a.test"), (b"Authorization", b"Bearer own"))
    assert exchange.outcome.reason == "allowed by policy.yaml:4, with the client's own credential"
    assert exchange.request is not None
    assert (exchange.request.secrets, exchange.echoes) == (True, ())


def test_the_record_names_the_injected_secret(policy: PolicyOf, tmp_path: Path) -> None:
    put_secret(tmp_path, "token", ["a.test"], b"correct horse")
    record = filled(asked("/api/x"), policy(SECRETIVE), tmp_path).record(now=5.0)
    assert [(one.secret, one.kind, one.source) for one in record.secrets] == [("token", "bearer", "stored")]
    assert "correct" not in repr(record)


EXPLICIT = Tunnel(client="10.0.0.3", carries=Carries.PROXY, host="", port=0)


def decided_with_page(policy: Policy, sent: RequestHead, tunnel: Tunnel = EXPLICIT) -> Exchange:
    page = OwnPage(lambda _: [], ServiceHints(dict).advise)
    exchange = opened(sent, tunnel)
    Enforcer(lambda: policy, clock=lambda: 0.0, own_page=page).requestheaders(exchange, tunnel)
    return exchange


def asked_about_sandbox(method: bytes = b"GET", host: bytes = OWN_HOST.encode()) -> RequestHead:
    return RequestHead(method, b"/", b"HTTP/1.1", ((b"Host", host),), b"", OWN_HOST, 80, b"http")


@pytest.mark.parametrize("text", ["domains: [a.test]", "domains: []", "deny: [agent-sandbox.internal]"])
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"])
def test_forwards_no_request_to_the_sandboxs_own_page(policy: PolicyOf, text: str, method: bytes) -> None:
    exchange = decided_with_page(policy(text), asked_about_sandbox(method))
    assert exchange.forwarded is None
    assert exchange.answer
    assert (exchange.answer.body == b"") is (method == b"HEAD")
    record = exchange.record(now=0.0)
    assert (str(record.decision), record.reason) == ("allow", "answered by the proxy: the page about this sandbox")


def test_denies_a_request_for_the_own_page_that_names_another_host(policy: PolicyOf) -> None:
    exchange = decided_with_page(policy("domains: [a.test]"), asked_about_sandbox(host=b"a.test"))
    assert exchange.answer
    assert exchange.answer.status == 403
    elsewhere = Tunnel(client="c", carries=Carries.HTTP, host="a.test", port=80)
    other = decided_with_page(policy("domains: [a.test]"), asked_about_sandbox(), elsewhere)
    assert other.answer
    assert other.answer.status == 403


def test_answers_clients_that_reach_the_own_page_through_dns(policy: PolicyOf) -> None:
    current = policy("domains: [a.test]")
    tunnel = Tunnel(client="c", carries=Carries.HTTP, host=OWN_HOST, port=80)
    exchange = decided_with_page(current, asked_about_sandbox(), tunnel)
    assert exchange.answer
    assert exchange.answer.status == 200


class Waits:
    """Questions that every request waits for, or that nobody is asked."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.asked: list[str] = []

    def ask(self, exchange: Exchange, request: Request, decision: Decision, policy: Policy, **_: object) -> str:
        """Make it wait, unless there is a reason not to."""
        self.asked.append(f"{request.method} {request.url} {decision.cause} {bool(policy.refusal)}")
        if not self.why:
            exchange.waiting = Waiting(leave=lambda: None)
        return self.why


def with_questions(policy: Policy, questions: Waits) -> Enforcer:
    return Enforcer(lambda: policy, clock=lambda: 5.0, questions=cast("Questions", questions))


UNLISTED = Tunnel(client="", carries=Carries.TLS, host="new.test", port=443)


def test_a_denied_request_waits_and_is_decided_again_with_its_grant(policy: PolicyOf) -> None:
    current, questions = policy(RULES), Waits()
    decision = decide_connect(current, host="new.test", port=443)
    tunnel = Tunnel(client="", carries=Carries.TLS, host="new.test", port=443, decision=decision)
    exchange, enforcer = opened(asked(host=b"new.test"), tunnel), with_questions(current, questions)
    enforcer.requestheaders(exchange, tunnel)
    assert (exchange.waits, exchange.answer, exchange.forwarded, exchange.outcome) == (True, None, None, NOT_DECIDED)
    offer = offer_for(parse_request(scheme="https", host="new.test", port=443, method="GET", target="/"), current)
    assert exchange.waiting
    assert offer
    rule = Rule(effect=Effect.ALLOW, conditions=offer.once, origin=Origin(file="grant", line=1, layer="grant"))
    exchange.waiting.end("", grant=rule)
    enforcer.requestheaders(exchange, tunnel)
    assert (exchange.outcome.effect, exchange.outcome.rule, exchange.forwarded is None) == (
        Effect.ALLOW,
        "grant:1",
        False,
    )
    assert (tunnel.refused, questions.asked) == (None, ["GET https://new.test/api/x host False"])


def test_a_tunnel_to_a_completely_denied_host_stays_refused(policy: PolicyOf) -> None:
    refused = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443, decision=NO)
    exchange = opened(asked(), refused)
    exchange.waiting = Waiting(leave=lambda: None, over=True)
    current = policy(RULES)
    host = parse_host_pattern("b.test")
    # Its requests are allowed, and its tunnel is not: no policy says that, so this is only the second wall.
    moved = replace(refused, host="b.test")
    assert decide_connect(current, host=host.name, port=443).allowed is False
    assert _refusal(moved, current, exchange)
    assert moved.refused is NO
    assert _refusal(refused, current, exchange) is None
    assert refused.refused is None


def test_denies_a_request_without_an_answer_and_does_not_ask_again(policy: PolicyOf) -> None:
    exchange, questions = opened(asked(host=b"new.test"), UNLISTED), Waits()
    enforcer = with_questions(policy(RULES), questions)
    enforcer.requestheaders(exchange, UNLISTED)
    assert exchange.waiting
    exchange.waiting.end("nobody answered")
    enforcer.requestheaders(exchange, UNLISTED)
    assert told(exchange)["reason"] == "no rule allows host new.test; nobody answered"
    assert len(questions.asked) == 1


def test_the_reason_says_why_no_person_answered(policy: PolicyOf) -> None:
    exchange = opened(asked(host=b"new.test"), UNLISTED)
    with_questions(policy(RULES), Waits("nobody was asked")).requestheaders(exchange, UNLISTED)
    assert told(exchange)["reason"] == "no rule allows host new.test; nobody was asked"


def learning(current: Policy, given: list[str]) -> Enforcer:
    """Return an enforcer that grants every request that may be granted, by itself."""

    def learns(exchange: Exchange, request: Request, decision: Decision, policy: Policy) -> bool:
        given.append(f"{request.method} {request.url} {decision.cause}")
        offer = offer_for(request, policy)
        if offer is None:
            return False
        rule = Rule(effect=Effect.ALLOW, conditions=offer.once, origin=Origin(file="grant", line=1, layer="grant"))
        exchange.waiting = Waiting(leave=lambda: None)
        exchange.waiting.end("", grant=rule)
        return True

    return Enforcer(lambda: current, clock=lambda: 5.0, learns=learns)


def test_allows_a_request_at_once_while_learning(policy: PolicyOf) -> None:
    current, given = policy(RULES), list[str]()
    decision = decide_connect(current, host="new.test", port=443)
    tunnel = Tunnel(client="", carries=Carries.TLS, host="new.test", port=443, decision=decision)
    exchange = opened(asked(host=b"new.test"), tunnel)
    learning(current, given).requestheaders(exchange, tunnel)
    assert (exchange.outcome.effect, exchange.outcome.rule) == (Effect.ALLOW, "grant:1")
    assert (exchange.forwarded is None, exchange.waits, tunnel.refused) == (False, False, None)
    assert given == ["GET https://new.test/api/x host"]


def test_a_grant_for_something_else_leaves_the_request_denied(policy: PolicyOf) -> None:
    given = list[str]()
    exchange = opened(asked(host=b"new.test"), UNLISTED)

    def learns(exchange: Exchange, *_: object) -> bool:
        given.append(exchange.host)
        exchange.waiting = Waiting(leave=lambda: None)
        exchange.waiting.end("", grant=rule)
        return True

    current = policy(RULES)
    offer = offer_for(parse_request(scheme="https", host="other.test", port=443, method="GET", target="/"), current)
    assert offer
    rule = Rule(effect=Effect.ALLOW, conditions=offer.once, origin=Origin(file="grant", line=1, layer="grant"))
    Enforcer(lambda: current, clock=lambda: 5.0, learns=learns).requestheaders(exchange, UNLISTED)
    assert (told(exchange)["reason"], given) == ("no rule allows host new.test", ["new.test"])


def test_the_stacks_own_checks_teach_nothing_and_do_not_wait_for_a_person(policy: PolicyOf) -> None:
    given, questions, tunnel = list[str](), Waits(), Tunnel(client="", carries=Carries.PROXY)
    host = b"agent-sandbox.invalid"
    head = RequestHead(b"GET", b"/", b"HTTP/1.1", ((b"Host", host),), b"", host.decode(), 80, b"http")
    for enforcer in (learning(policy(RULES), given), with_questions(policy(RULES), questions)):
        exchange = opened(head, tunnel)
        enforcer.requestheaders(exchange, tunnel)
        assert (exchange.waiting, exchange.outcome.effect) == (None, Effect.DENY)
    assert (given, questions.asked) == ([], [])


LOGIN = {
    "endpoints": ["https://a.test/token"],
    "begins": {"access": "", "refresh": ""},
    "answer": {"access_token": "{access}"},
    "value": "the real token",
    "lifetime": 60,
}


def refreshing(policy: Policy, folder: Path, body: bytes, tunnel: Tunnel = TUNNEL, **login: object) -> Exchange:
    """Return a refresh request after its body arrived; in the body, REFRESH is the placeholder."""
    (folder / "run").mkdir()
    (folder / "secrets").mkdir()
    stored = put_login(folder / "secrets", "login", ["b.test"], json.dumps({**LOGIN, **login}).encode())
    mine = placeholders_of(stored, PLACEHOLDERS)["refresh"].encode()
    head = replace(asked("/token", (b"Accept", b"application/json")), method=b"POST")
    exchange = opened(head, tunnel)
    enforcer = Enforcer(lambda: policy, clock=lambda: 5.0, refresher=Refresher(folder / "secrets", PLACEHOLDERS))
    enforcer.requestheaders(exchange, tunnel)
    assert exchange.forwarded is None
    exchange.body = body.replace(b"REFRESH", mine)
    enforcer.request(exchange, tunnel)
    return exchange


MINE = b"grant_type=refresh_token&refresh_token=REFRESH"


def test_answers_a_refresh_request_with_a_placeholder(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = refreshing(policy("domains: [a.test]"), tmp_path, MINE)
    assert exchange.answer
    assert exchange.forwarded is None
    assert (exchange.answer.status, exchange.outcome) == (
        200,
        Outcome(Effect.ALLOW, "answered by the proxy: the login is refreshed on the host machine"),
    )
    assert json.loads(exchange.answer.body) == {"access_token": PLACEHOLDERS.ending("login")}


def test_a_refresh_without_a_valid_token_is_a_502_with_a_hint(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = refreshing(policy("domains: [a.test]"), tmp_path, MINE, lifetime=0)
    body = told(exchange)
    assert status(exchange) == 502
    assert (body["reason"], body["hint"]) == (
        "secret login has no value now: it has expired",
        "agent-sandbox secret sync",
    )


def test_denies_a_placeholder_in_another_request_to_the_endpoint(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = refreshing(policy("domains: [a.test]\nsettings: {block_status: 418}"), tmp_path, b"token=REFRESH")
    assert (status(exchange), exchange.outcome.cause) == (418, "injection")


def test_forwards_a_clients_own_sign_in(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = refreshing(policy("domains: [a.test]"), tmp_path, b"grant_type=authorization_code&code=c")
    assert exchange.allowed
    assert exchange.forwarded


def test_the_policy_decides_before_a_refresh_is_answered(policy: PolicyOf, tmp_path: Path) -> None:
    exchange = refreshing(policy("domains: [b.test]"), tmp_path, MINE)
    assert (status(exchange), exchange.held) == (403, False)


def test_a_refused_tunnel_answers_no_refresh(policy: PolicyOf, tmp_path: Path) -> None:
    tunnel = replace(TUNNEL, decision=NO)
    exchange = refreshing(policy("domains: [a.test]"), tmp_path, MINE, tunnel)
    assert (status(exchange), exchange.outcome.reason) == (403, "not at all")


def test_a_request_beyond_a_budget_is_denied(policy: PolicyOf) -> None:
    spent: list[tuple[str, int]] = []

    def spend(kind: str, size: int) -> OverBudget | None:
        spent.append((kind, size))
        return OverBudget("no more", 9) if len(spent) > 3 else None

    with_budget = policy(RULES.replace("host: a.test,", "host: a.test, budget: {requests: 1/min},"))
    asked_about: list[int] = []

    def spender(budgets: Sequence[Budgeted]) -> Spend:
        asked_about.append(len(budgets))
        return spend

    enforcer = Enforcer(lambda: with_budget, clock=lambda: 5.0, spender=spender)
    first, second, denied = (opened(asked(path)) for path in ("/api/x", "/api/y", "/admin"))
    for exchange in (first, second, denied):
        enforcer.requestheaders(exchange, TUNNEL)
    size = len(b"GET/api/xHosta.test")
    assert (first.allowed, first.spend is spend, first.received.spend is spend) == (True, True, True)
    assert spent == [("requests", 1), ("upload", size), ("requests", 1), ("upload", size)]
    assert (status(second), second.outcome) == (429, Outcome(Effect.DENY, "no more", "policy.yaml:2", "budget"))
    assert second.answer
    assert (b"retry-after", b"9") in second.answer.fields
    assert asked_about == [1, 1]  # a denied request does not count


CONFINED = "services: [{name: github, repos: [o/app], api: {access: read, auth: {secret: token}}}]"


def test_allows_ids_from_responses_to_confined_operations(tmp_path: Path) -> None:
    put_secret(tmp_path, "token", ["api.github.com"], b"correct horse")
    services = shipped_services()
    confined = compile_policy([parse_layer(CONFINED, name="project", file="p", shown="p", services=services)], services)
    enforcer = Enforcer(lambda: confined, clock=lambda: 5.0, injector=Injector(tmp_path))
    tunnel = replace(TUNNEL, host="api.github.com")

    def ask(document: str) -> Exchange:
        head = replace(asking(JSON), host="api.github.com")
        head = replace(head, fields=(*[one for one in head.fields if one[0] != b"Host"], (b"Host", b"api.github.com")))
        exchange = open_exchange(head, tunnel, started=0.0)
        enforcer.requestheaders(exchange, tunnel)
        exchange.body = json.dumps({"query": document}).encode()
        enforcer.request(exchange, tunnel)
        return exchange

    node = '{ node(id: "I_1") { ...on Issue { title } } }'
    assert not ask(node).allowed
    read = ask('{ repository(owner: "o", name: "app") { issue(number: 1) { id } } }')
    assert read.allowed
    assert read.received.copied is not None
    read.received.copied += b'{"data": {"repository": {"issue": {"id": "I_1"}}}}'
    enforcer.response(read, tunnel)
    enforcer.response(read, tunnel)
    assert ask(node).allowed


MCP = """
domains:
  - {host: a.test, rules: [{schemes: [https], path: {exact: /mcp}, mcp: {tools: [search, read_*]}}]}
"""
STREAMING = (b"Accept", b"text/event-stream")
CALL_SEARCH = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "search"}}'


def test_decides_on_a_tool_call_once_its_body_has_arrived(policy: PolicyOf) -> None:
    exchange = read(asking(JSON, path="/mcp"), CALL_SEARCH, policy(MCP))
    assert (exchange.allowed, exchange.body_limit, exchange.shows_tool) == (True, MESSAGE, None)
    assert (exchange.mcp, exchange.mcp_id) == ("tools/call search", 7)


def test_denies_another_tool_with_its_name_and_id(policy: PolicyOf) -> None:
    exchange = read(asking(JSON, path="/mcp"), CALL_SEARCH.replace(b"search", b"delete"), policy(MCP))
    assert (status(exchange), exchange.outcome.cause, exchange.mcp) == (403, "operation", "tools/call delete")
    assert "mcp tools/call delete is not" in exchange.outcome.reason
    assert json.loads(exchange.answer.body)["id"] == 7 if exchange.answer else False


@each(
    ("head", "mcp", "lists"),
    [
        (asked("/mcp", STREAMING), "stream", True),
        (replace(asked("/mcp", (b"Mcp-Session-Id", b"1")), method=b"DELETE"), "end of session", False),
    ],
)
def test_a_request_without_a_body_is_decided_at_its_head(
    policy: PolicyOf, head: RequestHead, mcp: str, *, lists: bool
) -> None:
    exchange = enforce(head, policy(MCP))
    assert (exchange.allowed, exchange.mcp, exchange.shows_tool is not None) == (True, mcp, lists)


@each(
    ("rule", "wanted"),
    [("{methods: [POST]}", 426), ("{methods: [POST], path: {exact: /y}}", 403), ("{methods: [PUT]}", 403)],
)
def test_a_denied_websocket_gets_426_where_a_post_is_allowed(policy: PolicyOf, *, rule: str, wanted: int) -> None:
    key = (b"Sec-WebSocket-Key", b"AAAAAAAAAAAAAAAAAAAAAA==")
    upgrade = (b"Connection", b"upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13"), key
    exchange = enforce(asked("/x", *upgrade), policy(f"domains: [{{host: a.test, rules: [{rule}]}}]"))
    assert status(exchange) == wanted
    assert not exchange.allowed


def test_a_websocket_is_no_stream_of_events(policy: PolicyOf) -> None:
    key = (b"Sec-WebSocket-Key", b"AAAAAAAAAAAAAAAAAAAAAA==")
    upgrade = (b"Connection", b"upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Version", b"13"), key
    exchange = enforce(asked("/mcp", STREAMING, *upgrade), policy(MCP))
    assert (exchange.allowed, exchange.mcp) == (False, "ambiguous")
    assert "ambiguous MCP (a WebSocket)" in exchange.outcome.reason


def test_a_stream_over_http2_waits_for_its_end_because_it_may_have_a_body(policy: PolicyOf) -> None:
    head = replace(asked("/mcp", STREAMING), version=b"HTTP/2.0", authority=b"a.test")
    assert read(head, b"", policy(MCP)).allowed
    assert not read(head, b"x", policy(MCP)).allowed


def test_a_list_of_tools_is_filtered_by_the_policy_in_force(policy: PolicyOf) -> None:
    current = [policy(MCP)]
    enforcer, exchange = Enforcer(lambda: current[0], clock=lambda: 5.0), opened(asking(JSON, path="/mcp"))
    enforcer.requestheaders(exchange, TUNNEL)
    exchange.body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    enforcer.request(exchange, TUNNEL)
    assert exchange.shows_tool
    assert [exchange.shows_tool(name) for name in ("search", "read_a", "delete")] == [True, True, False]
    # A call of such a name is denied as ambiguous.
    assert not exchange.shows_tool("read_\u202ea")
    current[0] = policy(MCP.replace("search", "delete"))
    assert [exchange.shows_tool(name) for name in ("search", "read_a", "delete")] == [False, True, True]


def test_a_graphql_body_is_not_read_as_mcp(policy: PolicyOf) -> None:
    exchange = read(asking(JSON), b'{"query": "{viewer{login}}"}', policy(GRAPHQL))
    assert (exchange.mcp, exchange.body_limit) == ("", OPERATION)


def signing(
    policy: Policy, folder: Path, body: bytes, *, path: str = "/sign-commit", method: bytes = b"POST"
) -> Exchange:
    """Return a request for a signature after its body arrived."""
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).splitlines()
    put_secret(folder, "git.key", [OWN_HOST], b"me@example.com " + b"".join(key[1:-1]))
    head = RequestHead(method, path.encode(), b"HTTP/1.1", ((b"Host", OWN_HOST.encode()),), b"", OWN_HOST, 80, b"http")
    tunnel = Tunnel(client="10.0.0.3", carries=Carries.PROXY)
    exchange = opened(head, tunnel)
    enforcer = Enforcer(lambda: policy, clock=lambda: 5.0, secrets=folder)
    enforcer.requestheaders(exchange, tunnel)
    assert exchange.held is (method == b"POST")
    exchange.body = body
    enforcer.request(exchange, tunnel)
    return exchange


SIGNED_COMMIT = (
    b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.com> 1 +0000\n"
    b"committer Me <me@example.com> %d +0000\n\na\n" % time.time()
)


def test_a_commit_is_signed_after_its_body_arrived(policy: PolicyOf, tmp_path: Path) -> None:
    on = policy("settings: {sign_commits: git.key}\ndomains: [a.test]")
    exchange = signing(on, tmp_path, SIGNED_COMMIT)
    assert exchange.outcome == Outcome(Effect.ALLOW, "signed for me@example.com with git.key: a")
    assert exchange.answer
    assert (exchange.answer.status, exchange.forwarded) == (200, None)
    assert [one.secret for one in exchange.secrets] == ["git.key"]


def test_the_public_key_is_answered_at_once(policy: PolicyOf, tmp_path: Path) -> None:
    on = policy("settings: {sign_commits: git.key}\ndomains: [a.test]")
    exchange = signing(on, tmp_path, b"", path="/signing-key", method=b"GET")
    assert exchange.answer
    assert (exchange.answer.status, exchange.answer.body[:12]) == (200, b"ssh-ed25519 ")


@each(
    ("secret", "body", "expected"),
    [
        ("git.key", b"x", (403, "this is not a git commit")),
        ("other", SIGNED_COMMIT, (403, "the proxy has no signing key other")),
        (
            "broken",
            SIGNED_COMMIT,
            (502, "secret broken is not of the form EMAIL KEY, as `--from ssh-key:FILE` makes it"),
        ),
    ],
)
def test_a_refused_signature_has_a_reason(
    secret: str, body: bytes, expected: tuple[int, str], policy: PolicyOf, tmp_path: Path
) -> None:
    put_secret(tmp_path, "broken", [OWN_HOST], b"not-a-key")
    exchange = signing(policy(f"settings: {{sign_commits: {secret}}}\ndomains: [a.test]"), tmp_path, body)
    assert exchange.answer
    assert (exchange.answer.status, exchange.outcome.reason) == expected
    assert (exchange.outcome.effect, exchange.outcome.cause) == (Effect.DENY, "")


def test_never_sends_the_signing_key_to_a_server(policy: PolicyOf, tmp_path: Path) -> None:
    put_secret(tmp_path, "git.key", [OWN_HOST], b"me@example.com AAAA")
    header = "{X-Key: {secret: git.key, transform: {type: raw}}}"
    transform = f"transform: {{request: {{headers: {header}}}}}"
    rules = policy(f"host_services: {{own: {{to: '{OWN_HOST}:443', schemes: [https], {transform}}}}}")
    tunnel = Tunnel(client="10.0.0.3", carries=Carries.TLS, host=OWN_HOST, port=443)
    exchange = opened(asked("/", host=OWN_HOST.encode()), tunnel)
    Enforcer(lambda: rules, clock=lambda: 5.0, injector=Injector(tmp_path)).requestheaders(exchange, tunnel)
    assert exchange.outcome.reason == "a key that signs commits is sent to no server"
    assert not exchange.allowed
