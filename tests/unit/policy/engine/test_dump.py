from agent_sandbox.policy.engine.dump import dump_rule
from policy_texts import PolicyOf


def test_dumps_a_rule_in_canonical_form(policy_of: PolicyOf) -> None:
    policy = policy_of(
        """
        domains:
          - host: "*.A.test"
            ports: [8443, 443]
            encoded_slash: true
            inspect: true
            rules:
              - {methods: [POST, GET], schemes: [https], path: {prefix: /v1}, query: {exact: {b: x, a: [z, w]}}}
              - {headers: {X-B: "1", X-A: "2"}, max_body: 1KB}
              - {graphql: {query: [viewer, node], mutation: [addComment]}}
              - {mcp: {tools: [search, read_*], methods: [prompts/list]}}
              - transform: {request: {headers: {X-Key: {secret: a, transform: {type: bearer}}}}}
        """
    )
    expected = {
        "effect": "allow",
        "host": "*.a.test",
        "ports": [443, 8443],
        "schemes": ["https"],
        "methods": ["GET", "HEAD", "POST"],
        "path": {"prefix": "/v1"},
        "query": [["a", "w"], ["a", "z"], ["b", "x"]],
        "encoded_slash": True,
        "inspect": True,
        "origin": {"file": "policy.yaml", "line": 8, "layer": "project"},
        "reason": "",
    }
    first, second, third, messages, fourth = (dump_rule(rule) for rule in policy.rules.rules)
    assert first == expected
    assert third["graphql"] == {"mutation": ["addComment"], "query": ["node", "viewer"]}
    assert third["methods"] == ["POST"]
    assert messages["mcp"] == {"tools": ["read_*", "search"], "methods": ["prompts/list"]}
    assert messages["methods"] == ["GET", "POST"]
    bearer = {"secret": "a", "transform": {"type": "bearer"}}
    assert fourth["transform"] == {"request": {"headers": {"x-key": bearer}, "on_existing_header": "fail"}}
    assert fourth["schemes"] == ["https"]
    assert (second["headers"], second["max_body"]) == ({"x-a": "2", "x-b": "1"}, 1000)


def test_omits_conditions_that_a_rule_does_not_have(policy_of: PolicyOf) -> None:
    policy = policy_of("domains: [a.test]\ndeny: [b.test]")
    assert dump_rule(policy.rules.rules[1]) == {
        "effect": "deny",
        "host": "b.test",
        "origin": {"file": "policy.yaml", "line": 2, "layer": "project"},
        "reason": "",
    }
