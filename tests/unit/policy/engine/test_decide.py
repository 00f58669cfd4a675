import dataclasses

import pytest
from msgspec.structs import replace

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.decision import Cause, Decision, Effect, Origin
from agent_sandbox.policy.engine.decide import (
    allows,
    awaits_message,
    awaits_operation,
    decide,
    decide_connect,
    decide_with_secrets,
)
from agent_sandbox.policy.engine.grants import Grants
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.explain.offer import offer_for
from agent_sandbox.policy.http.graphql_operation import Operation
from agent_sandbox.policy.http.mcp_message import CALL, McpMessage
from agent_sandbox.policy.http.request import Request
from policy_texts import LayerOf, PolicyOf, RequestOf
from table_tests import each

NOTHING = compile_policy([], {})
HERE = Origin(file="grant", line=1, layer="grant")

POLICY = """
domains:
  - a.test
  - host: "*.wild.test"
    ports: [8443]
  - host: api.test
    rules:
      - {methods: [GET], path: {prefix: /v1/}}
      - {methods: [POST], schemes: [https], path: {exact: /v1/items}}
deny:
  - host: a.test
    rules: [{path: {prefix: /admin}, reason: not for agents}]
  - bad.wild.test
"""


def by(effect: Effect, line: int, reason: str = "") -> Decision:
    verb = "allowed" if effect is Effect.ALLOW else "denied"
    origin = Origin(file="policy.yaml", line=line, layer="project")
    return Decision(effect=effect, rule=str(origin), origin=origin, reason=f"{verb} by {origin}{reason}")


PUSHES = """
domains:
  - {host: read.test, rules: [{methods: [GET]}]}
  - {host: all.test}
  - host: typed.test
    rules:
      - {methods: [GET]}
      - {methods: [POST], headers: {content-type: application/x-git-receive-pack-request}}
  - {host: closed.test}
deny: [POST https://closed.test/**/git-receive-pack]
"""


@each(
    ("line", "reason"),
    [
        (
            "GET https://read.test/o/r.git/info/refs?service=git-receive-pack",
            "host read.test is allowed, method POST is not",
        ),
        ("GET https://closed.test/o/r/info/refs?service=git-receive-pack", "denied by policy.yaml:10"),
        ("GET https://all.test/o/r.git/info/refs?service=git-receive-pack", ""),
        ("GET https://read.test/o/r.git/info/refs?service=git-upload-pack", ""),
        ("GET https://read.test/o/r.git/info/refs", ""),
        ("GET https://read.test/info/refs/x?service=git-receive-pack", ""),
    ],
)
def test_allows_the_request_that_starts_a_git_push_only_if_the_push_is_allowed(
    policy_of: PolicyOf, request_of: RequestOf, line: str, reason: str
) -> None:
    policy, request = policy_of(PUSHES), request_of(line)
    decision = decide(policy, request)
    assert (decision.allowed, allows(policy, request)) == (not reason, not reason)
    if reason:
        assert decision.reason.startswith(f"this request starts a git push, which is denied: {reason}")


def test_the_start_of_a_push_matches_a_content_type_condition_of_the_push(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    request = request_of("GET https://typed.test/r/info/refs?service=git-receive-pack")
    assert decide(policy_of(PUSHES), replace(request, headers=(("Content-Type", "a/b"), ("user-agent", "git")))).allowed


@each(
    ("line", "decision"),
    [
        ("GET https://a.test/", by(Effect.ALLOW, 3)),
        ("DELETE http://a.test/x", by(Effect.ALLOW, 3)),
        ("GET https://a.test/admin/x", by(Effect.DENY, 12, ": not for agents")),
        ("GET https://a.test/%61dmin", by(Effect.DENY, 12, ": not for agents")),
        ("GET https://a.test/admin;x=1", by(Effect.DENY, 12, ": not for agents")),
        ("GET https://x.y.wild.test:8443/", by(Effect.ALLOW, 4)),
        ("GET https://bad.wild.test:8443/", by(Effect.DENY, 13)),
        ("HEAD https://api.test/v1/x", by(Effect.ALLOW, 8)),
        ("POST https://api.test/v1/items", by(Effect.ALLOW, 9)),
    ],
)
def test_decides_by_the_matching_rule(
    policy_of: PolicyOf, request_of: RequestOf, line: str, decision: Decision
) -> None:
    assert decide(policy_of(POLICY), request_of(line)) == decision


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("GET https://evil.test/", "no rule allows host evil.test"),
        (
            "TRACE https://a.test/",
            "host a.test is allowed, method TRACE is not: policy.yaml:3 allows any standard method a.test",
        ),
        (
            "POST http://api.test/v1/items",
            "host api.test is allowed, scheme http is not: policy.yaml:9 allows POST https://api.test/v1/items",
        ),
    ],
)
def test_denies_a_request_that_no_rule_allows(
    policy_of: PolicyOf, request_of: RequestOf, line: str, reason: str
) -> None:
    got = decide(policy_of(POLICY), request_of(line))
    assert (got.effect, got.rule, got.reason) == (Effect.DENY, None, reason)


@each(
    ("host", "port", "effect", "reason"),
    [
        ("a.test", 443, "allow", "allowed by policy.yaml:3"),
        ("api.test", 80, "allow", "allowed by policy.yaml:9"),
        ("x.wild.test", 8443, "allow", "allowed by policy.yaml:4"),
        ("bad.wild.test", 8443, "deny", "denied by policy.yaml:13"),
        ("a.test", 22, "deny", "host a.test is allowed, port 22 is not: policy.yaml:3 allows any method a.test"),
        ("evil.test", 443, "deny", "no rule allows host evil.test"),
    ],
)
def test_decides_a_connect_by_host_and_port(
    policy_of: PolicyOf, host: str, port: int, effect: str, reason: str
) -> None:
    got = decide_connect(policy_of(POLICY), host=host, port=port)
    assert (got.effect, got.reason) == (effect, reason)


@pytest.mark.parametrize(
    ("rules", "line", "limit"),
    [
        ("[{max_body: 1KB}, {max_body: 3KB}, {max_body: 2KB}]", 3, 3000),
        ("[{max_body: 0}, {path: {prefix: /}}, {max_body: 1GB}]", 3, None),
        ("[{path: {prefix: /x}}, {max_body: 1KB}]", 3, 1000),
    ],
)
def test_limits_the_body_to_the_largest_max_body_of_all_matching_allows(
    policy_of: PolicyOf, request_of: RequestOf, rules: str, line: int, limit: int | None
) -> None:
    got = decide(policy_of(f"domains:\n  - host: a.test\n    rules: {rules}"), request_of("POST https://a.test/"))
    assert got == replace(by(Effect.ALLOW, line), max_body=limit)


def test_a_connect_decision_has_no_body_limit(policy_of: PolicyOf) -> None:
    policy = policy_of("domains: [{host: a.test, rules: [{max_body: 1KB}]}]")
    assert decide_connect(policy, host="a.test", port=443) == by(Effect.ALLOW, 1)


def test_a_deny_all_policy_denies_everything_with_its_reason(request_of: RequestOf) -> None:
    policy = Policy.deny_all("policy.yaml:3:5: unknown key 'x'")
    expected = Decision(
        effect=Effect.DENY, rule=None, origin=None, reason="policy.yaml:3:5: unknown key 'x'", cause=Cause.POLICY
    )
    assert decide(policy, request_of("GET https://a.test/")) == expected
    assert decide_connect(policy, host="a.test", port=443) == expected
    assert allows(policy, request_of("GET https://a.test/")) is False


@each("text", ["", "{}", "# nothing\n", "domains: []", "domains:\n  # - a.test\n", "deny: [b.test]"])
def test_a_policy_without_an_allow_denies_everything(policy_of: PolicyOf, request_of: RequestOf, text: str) -> None:
    got = decide(policy_of(text), request_of("GET https://a.test/"))
    expected = Decision(
        effect=Effect.DENY, rule=None, origin=None, reason="policy.yaml allows nothing yet", cause=Cause.EMPTY
    )
    assert got == decide_connect(policy_of(text), host="a.test", port=443) == expected


def test_a_policy_with_only_denies_names_the_matching_deny(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of("deny: [a.test]")
    assert decide(policy, request_of("GET https://a.test/")) == by(Effect.DENY, 1)
    assert decide_connect(policy, host="a.test", port=443) == by(Effect.DENY, 1)


GRAPHQL = "domains: [{host: a.test, rules: [{schemes: [https], path: {exact: /graphql}, graphql: {query: [viewer]}}]}]"
VIEWER = Operation(kind="query", fields=frozenset({"viewer"}))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("POST https://a.test/graphql", True),
        ("POST http://a.test/graphql", False),
        ("GET https://a.test/graphql", False),
        ("POST https://b.test/graphql", False),
    ],
)
def test_waits_for_a_graphql_body_only_if_the_body_could_make_the_request_allowed(
    policy_of: PolicyOf, request_of: RequestOf, line: str, *, expected: bool
) -> None:
    policy, request = policy_of(GRAPHQL), request_of(line)
    assert not decide(policy, request).allowed
    assert awaits_operation(policy, request) is expected
    assert decide(policy, replace(request, operation=VIEWER)).allowed is expected


def test_does_not_wait_for_a_body_twice_or_without_a_rule_about_it(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request = request_of("POST https://a.test/graphql")
    assert not awaits_operation(policy_of(GRAPHQL), replace(request, operation=VIEWER))
    assert not awaits_operation(policy_of("allow: [GET https://a.test/graphql]"), request)
    call = replace(request_of("POST https://a.test/mcp"), message=SEARCH)
    assert not awaits_operation(policy_of(MCP), call)
    assert not awaits_message(policy_of(MCP), call)


MCP = "domains: [{host: a.test, rules: [{schemes: [https], path: {exact: /mcp}, mcp: {tools: [search]}}]}]"
SEARCH = McpMessage(method=CALL, tool="search")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("POST https://a.test/mcp", True),
        ("GET https://a.test/mcp", True),
        ("POST http://a.test/mcp", False),
        ("PUT https://a.test/mcp", False),
        ("POST https://a.test/x", False),
    ],
)
def test_waits_for_an_mcp_message_only_if_it_could_make_the_request_allowed(
    policy_of: PolicyOf, request_of: RequestOf, line: str, *, expected: bool
) -> None:
    policy, request = policy_of(MCP), request_of(line)
    assert not decide(policy, request).allowed
    assert (awaits_operation(policy, request), awaits_message(policy, request)) == (expected, expected)
    assert decide(policy, replace(request, message=SEARCH)).allowed is expected
    assert not awaits_message(policy_of(GRAPHQL), request)


def test_still_waits_for_a_body_that_only_graphql_or_only_mcp_ruled_out(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    policy = policy_of("domains: [{host: a.test, rules: [{graphql: {query: [a]}}, {mcp: {tools: [a]}}]}]")
    request = request_of("POST https://a.test/")
    assert awaits_operation(policy, replace(request, operation=Operation(doubt="no JSON")))
    assert not awaits_message(policy, replace(request, message=McpMessage(doubt="no JSON")))
    assert awaits_operation(policy, replace(request, message=McpMessage(doubt="no JSON")))


SECRETS = """
domains:
- host: a.test
  transform: {request: {headers: {X: {secret: wide, transform: {type: bearer}}}}}
- host: a.test
  transform: {request: {headers: {X: {secret: narrow, transform: {type: bearer}}}}}
  rules: [{path: {prefix: /narrow/}, max_body: 1KB}]
- {host: a.test, rules: [{path: {prefix: /open/}}]}
deny: [POST https://a.test/**]
"""


@each(
    ("line", "without", "filled"),
    [
        ("GET https://a.test/x", "deny", ("allow", "policy.yaml:3", "secret wide in x")),
        ("GET https://a.test/narrow/", "deny", ("allow", "policy.yaml:7", "secret narrow in x")),
        ("GET https://a.test/open/", "allow", ("allow", "policy.yaml:3", "secret wide in x")),
        ("POST https://a.test/x", "deny", ("deny", "policy.yaml:9", "None")),
        ("GET http://a.test/x", "deny", ("deny", None, "None")),
    ],
)
def test_injects_the_secret_of_the_most_specific_rule_with_a_secret(
    policy_of: PolicyOf, request_of: RequestOf, line: str, without: str, filled: tuple[str, str | None, str]
) -> None:
    policy, request = policy_of(SECRETS), request_of(line)
    decision, injection = decide_with_secrets(policy, request)
    assert (str(decision.effect), decision.rule, str(injection)) == filled
    assert decision.max_body == (1000 if "narrow" in line else None)
    assert str(decide(policy, request).effect) == without


@each(
    ("more", "limit"),
    [
        ("", 10),
        ("{path: {prefix: /}, max_body: 100}, ", 100),
        ("{path: {prefix: /}, max_body: 5000}, ", 1000),
    ],
)
def test_limits_the_body_by_the_rules_that_inject_the_secret(layer_of: LayerOf, more: str, limit: int) -> None:
    put_in = "transform: {request: {headers: {X: {secret: s, transform: {type: bearer}}}}}"
    project = f"""
domains:
- {{host: a.test, {put_in}, rules: [{more}{{path: {{prefix: /x}}, max_body: 10}}]}}
- a.test
"""
    restriction = "tighten: true\ndomains: [{host: a.test, rules: [{max_body: 1000}]}]"
    policy = compile_policy([layer_of(restriction), layer_of(project)], {})
    request = Request(scheme="https", host="a.test", port=443, method="POST", path="/x", query="")
    assert decide_with_secrets(policy, request)[0].max_body == limit


def test_a_policy_without_secrets_decides_the_same_and_injects_nothing(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    policy, request = policy_of("domains: [a.test]"), request_of("GET https://a.test/")
    assert decide_with_secrets(policy, request) == (decide(policy, request), None)


def test_injects_nothing_if_only_rules_without_a_secret_allow_the_request(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    policy = policy_of(f"{SECRETS}\nallow: [GET https://b.test/]")
    decision, injection = decide_with_secrets(policy, request_of("GET https://b.test/"))
    assert (decision.allowed, injection) == (True, None)


def granted(policy: Policy, request: Request) -> Policy:
    """Return the policy with a grant for `request`."""
    offer = offer_for(request, NOTHING)
    assert offer
    return dataclasses.replace(
        policy, granted=Grants(rules=(Rule(effect=Effect.ALLOW, conditions=offer.once, origin=HERE, reason="once"),))
    )


def test_allows_a_granted_request_and_its_tunnel(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request = request_of("POST https://new.test/x")
    for text in ("domains: [a.test]", "domains: []"):
        policy = granted(policy_of(text), request)
        assert decide(policy, request).reason == "allowed by grant:1: once"
        assert decide_connect(policy, host="new.test", port=443).allowed
        assert not decide(policy, replace(request, method="GET")).allowed
        assert not decide_connect(policy, host="new.test", port=8443).allowed


ASKING = """
domains:
  - a.test
  - host: b.test
    rules: [{methods: [POST], transform: {request: {headers: {x-key: {secret: key, transform: {type: bearer}}}}}}]
allow: [PUT https://a.test/listed]
host_services: {nas: {to: nas.example.com:8080}}
settings: {ask: {about: [writes], uploads: 9}}
"""


@each(
    ("line", "size", "reason", "allow"),
    [
        ("GET https://a.test/", 0, "", 0),
        ("OPTIONS https://a.test/", 9, "", 0),
        ("POST https://a.test/", 0, "`settings.ask` requires a person to allow POST", 3),
        ("PUT https://a.test/listed", 9, "", 0),
        ("PUT https://a.test/listed", 10, "`settings.ask` requires a person to allow a body of 10B", 6),
        ("PUT https://a.test/listed", None, "`settings.ask` requires a person to allow a body of unknown size", 6),
        ("POST http://nas.example.com:8080/", 99, "", 0),
    ],
)
def test_asks_about_writes_and_uploads_that_no_rule_names(  # noqa: PLR0917 - a table
    policy_of: PolicyOf, request_of: RequestOf, line: str, size: int | None, reason: str, allow: int
) -> None:
    policy, request = policy_of(ASKING), replace(request_of(line), body_size=size)
    decision = decide(policy, request)
    assert (decision.reason if decision.cause is Cause.ASK else "") == reason
    assert allows(policy, request) is decision.allowed is not bool(reason)
    if reason:
        # The rule that allows the request is not the one that denies it.
        assert (decision.rule, decision.origin) == (None, None)
        after = decide(granted(policy, request), request)
        assert (after.allowed, after.reason) == (True, f"allowed by policy.yaml:{allow}; allowed by grant:1: once")


def test_limits_an_unasked_body_of_unknown_size_to_the_upload_threshold(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    get = replace(request_of("GET https://a.test/"), body_size=None)
    assert decide(policy_of(ASKING), get).max_body == 9
    assert decide(policy_of("domains: [a.test]\nsettings: {ask: writes}"), get).max_body is None


LASTING = """
domains: [a.test]
settings: {ask: {about: [unlisted, writes], uploads: 9}}
"""


@each(
    ("line", "size", "said"),
    [
        ("POST https://a.test/x", 9, None),
        ("POST https://a.test/x", 10, "`settings.ask` requires a person to allow a body of 10B"),
        ("POST https://a.test/x", None, "`settings.ask` requires a person to allow a body of unknown size"),
        ("DELETE https://a.test/x", None, 9),
        ("POST https://new.test/x", 9, None),
        ("POST https://new.test/x", 10, "`settings.ask` requires a person to allow a body of 10B"),
        ("GET https://new.test/x", None, 9),
    ],
)
def test_a_lasting_grant_does_not_allow_large_uploads(
    policy_of: PolicyOf, request_of: RequestOf, line: str, size: int | None, said: str | int | None
) -> None:
    policy, request = policy_of(LASTING), request_of(line)
    offer = offer_for(replace(request, body_size=0), policy)
    assert offer
    assert offer.lasting
    rule = Rule(effect=Effect.ALLOW, conditions=offer.lasting, origin=HERE, reason="for an hour")
    after = policy.granting((rule,))
    decision = decide(after, replace(request, body_size=size))
    assert (decision.reason if decision.cause is Cause.ASK else decision.max_body) == said
    assert decision.allowed is not isinstance(said, str)
    if not decision.allowed:
        once = offer_for(replace(request, body_size=size), after)
        assert once
        assert once.lasting is None
        assert decide(granted(policy, request), replace(request, body_size=size)).allowed


def test_an_answer_injects_what_the_rule_injects(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request = replace(request_of("POST https://b.test/"), body_size=10)
    policy = policy_of(ASKING)
    assert decide_with_secrets(policy, request)[1] is None
    plain = decide_with_secrets(policy_of(ASKING.replace("ask: {about: [writes], uploads: 9}", "ask: false")), request)
    decision, injection = decide_with_secrets(granted(policy, replace(request, secrets=True)), request)
    assert (decision.allowed, injection) == (True, plain[1])
    assert injection


def test_allows_the_start_of_a_git_push_that_asks_a_person(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of("domains: [git.test]\nsettings: {ask: writes}")
    assert decide(policy, request_of("GET https://git.test/o/r/info/refs?service=git-receive-pack")).allowed
    assert decide(policy, request_of("POST https://git.test/o/r/git-receive-pack")).cause is Cause.ASK


RULES_ASK = """
domains:
  - {host: a.test, rules: [{methods: [GET]}, {methods: [DELETE], ask: true, reason: it is gone then}]}
  - {host: .b.test, ask: true, rules: [{path: {prefix: /v1}}, {path: {prefix: /open}, ask: false}]}
  - {host: c.test, ask: true}
  - {host: c.test, encoded_slash: true}
  - {host: "*.example.com", ask: true}
deny: [{host: a.test, rules: [{path: {prefix: /never}}]}]
host_services: {nas: {to: nas.example.com:8080}}
"""
FIRST, SECOND, THIRD, LAST = (f"policy.yaml:{line} requires a person to allow this" for line in (3, 4, 5, 7))


@each(
    ("line", "reason"),
    [
        ("GET https://a.test/x", ""),
        ("DELETE https://a.test/x", f"{FIRST}: it is gone then"),
        ("DELETE https://a.test/never", ""),
        ("GET https://b.test/v1/x", SECOND),
        ("GET https://y.b.test/v1/x", SECOND),
        ("GET https://b.test/open", ""),
        ("GET https://b.test/other", ""),
        ("GET https://c.test/", THIRD),
        ("GET https://c.test/a%2Fb", THIRD),
        ("GET http://nas.example.com:8080/", LAST),
        ("GET https://d.test/", ""),
    ],
)
def test_a_rule_that_asks_requires_a_person(policy_of: PolicyOf, request_of: RequestOf, line: str, reason: str) -> None:
    policy, request = policy_of(RULES_ASK), request_of(line)
    decision = decide(policy, request)
    assert (decision.reason if decision.cause is Cause.ASK else "") == reason
    assert allows(policy, request) is decision.allowed
    assert not decision.allowed or not reason
    assert not reason or reason.startswith(f"{decision.rule} ")


@each(
    ("line", "allowed"),
    [("DELETE https://a.test/x", True), ("GET https://c.test/y", True), ("DELETE https://a.test/never", False)],
)
def test_a_grant_for_the_path_answers_a_rule_that_asks_unless_a_deny_matches(
    policy_of: PolicyOf, request_of: RequestOf, line: str, *, allowed: bool
) -> None:
    policy, request = policy_of(RULES_ASK), request_of(line)
    offer = offer_for(request, policy)
    assert (offer is not None) is allowed
    if offer and offer.lasting:
        for conditions in (offer.once, offer.lasting):
            rule = Rule(effect=Effect.ALLOW, conditions=conditions, origin=HERE, reason="granted")
            assert decide(policy.granting((rule,)), request).reason.endswith("; allowed by grant:1: granted")
        rule = Rule(effect=Effect.ALLOW, conditions=offer.lasting, origin=HERE)
        assert decide(policy.granting((rule,)), replace(request, path="/else")).cause is Cause.ASK


def test_a_grant_for_all_paths_does_not_answer_a_rule_that_asks(policy_of: PolicyOf, request_of: RequestOf) -> None:
    offer = offer_for(request_of("GET https://c.test/"), NOTHING)
    assert offer
    assert offer.lasting
    policy = policy_of(RULES_ASK).granting((Rule(effect=Effect.ALLOW, conditions=offer.lasting, origin=HERE),))
    assert decide(policy, request_of("GET https://c.test/x")).cause is Cause.ASK


def test_a_restricting_layer_can_require_a_person(layer_of: LayerOf, request_of: RequestOf) -> None:
    above = "tighten: true\ndomains: [a.test, {host: a.test, rules: [{methods: [DELETE], ask: true}]}]"
    policy = compile_policy([layer_of(above), layer_of("domains: [a.test]")], {})
    assert decide(policy, request_of("GET https://a.test/")).allowed
    assert decide(policy, request_of("DELETE https://a.test/")).cause is Cause.ASK
    assert decide(granted(policy, request_of("DELETE https://a.test/")), request_of("DELETE https://a.test/")).allowed


def test_does_not_grant_a_host_service(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of("host_services: {nas: {to: nas.example.com:8080}}")
    request = request_of("POST http://nas.example.com:8080/")
    assert decide(policy, request).allowed
    without_its_rule = dataclasses.replace(policy, index=policy_of("deny: [b.test]").index)
    after = granted(without_its_rule, request)
    assert not decide(after, request).allowed
    assert not decide_connect(after, host=request.host, port=request.port).allowed
