from typing import Any

import pytest
from pydantic import ValidationError

from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policy.http.headers import header_pattern
from agent_sandbox.policy.http.query import query_pattern
from agent_sandbox.policy.match.host_pattern import EVERY, parse_host_pattern
from agent_sandbox.policy.match.host_service import Target, host_service_row
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from table_tests import each


def told(value: object) -> list[tuple[tuple[int | str, ...], str]]:
    with pytest.raises(ValidationError) as raised:
        PolicySpec.model_validate(value)
    return [(error["loc"], error["type"]) for error in raised.value.errors()]


def test_a_single_query_value_needs_no_list() -> None:
    def policy(value: object) -> PolicySpec:
        rule = {"query": {"exact": {"ref": value}}}
        return PolicySpec.model_validate({"domains": [{"host": "a.test", "rules": [rule]}]})

    assert policy("main") == policy(["main"])


@pytest.mark.parametrize("kind", ["exact", "prefix", "glob"])
def test_parses_hosts_paths_and_queries_to_patterns(kind: str) -> None:
    rule = {"methods": ["GET"], "path": {kind: "/a"}, "query": {"exact": {"ref": "main"}}}
    spec = PolicySpec.model_validate({"domains": [{"host": "*.A.test", "rules": [rule]}]})
    (entry,) = spec.domains
    (read,) = entry.rules
    assert entry.host == parse_host_pattern("*.a.test")
    assert read.path is not None
    assert read.path.pattern == parse_path_pattern(PathKind(kind), "/a")
    assert read.query is not None
    assert read.query.pattern == query_pattern({"ref": ["main"]})


@each(
    ("entry", "expected"),
    [
        ({"ports": [0]}, [(("ports", 0), "greater_than_equal")]),
        ({"ports": ["443"]}, [(("ports", 0), "int_type")]),
        ({"ports": [True]}, [(("ports", 0), "int_type")]),
        ({"ports": []}, [(("ports",), "invalid_value")]),
        ({"rules": []}, [(("rules",), "invalid_value")]),
        ({"rules": [{"methods": "GET"}]}, [(("rules", 0, "methods"), "tuple_type")]),
        ({"rules": [{"methods": ["GTE"]}]}, [(("rules", 0, "methods", 0), "word")]),
        ({"rules": [{"methods": ["TRACE"]}]}, [(("rules", 0, "methods", 0), "word")]),
        ({"rules": [{"schemes": ["ftp"]}]}, [(("rules", 0, "schemes", 0), "literal_error")]),
        ({"rules": [{}, {"reason": "x"}]}, [(("rules", 0), "invalid_value"), (("rules", 1), "invalid_value")]),
        ({"rules": [{"path": {}}]}, [(("rules", 0, "path"), "invalid_value")]),
        ({"rules": [{"path": {"exact": "/a", "prefix": "/b"}}]}, [(("rules", 0, "path"), "invalid_value")]),
        ({"rules": [{"path": {"exact": "/a/../b"}}]}, [(("rules", 0, "path", "exact"), "invalid_value")]),
        ({"rules": [{"path": {"exact": None}}]}, [(("rules", 0, "path", "exact"), "string_type")]),
        ({"rules": None}, [(("rules",), "tuple_type")]),
        ({"ask": "yes"}, [(("ask",), "bool_type")]),
        ({"ask": True, "inspect": False}, [(("inspect",), "invalid_value")]),
        ({"rules": [{"ask": True, "graphql": {"query": ["a"]}}]}, [(("rules", 0), "invalid_value")]),
        ({"rules": [{"ask": True, "mcp": {"tools": ["a"]}}]}, [(("rules", 0), "invalid_value")]),
        ({"ask": True, "rules": [{"mcp": {"tools": ["a"]}}]}, [((), "invalid_value")]),
        ({"ask": True, "rules": [{"methods": ["GET"]}, {"graphql": {"query": ["a"]}}]}, [((), "invalid_value")]),
        ({"rules": [{"methods": None}]}, [(("rules", 0, "methods"), "tuple_type")]),
        ({"rules": [{"path": None}]}, [(("rules", 0, "path"), "invalid_value")]),
        ({"rules": [{"query": None}]}, [(("rules", 0, "query"), "invalid_value")]),
        ({"rules": [{"query": {}}]}, [(("rules", 0, "query", "exact"), "missing")]),
        ({"rules": [{"query": {"exact": {"a": []}}}]}, [(("rules", 0, "query", "exact", "a"), "invalid_value")]),
        ({"rules": [{"headers": {"x": 1}}]}, [(("rules", 0, "headers", "x"), "string_type")]),
        ({"rules": [{"headers": None}]}, [(("rules", 0, "headers"), "invalid_value")]),
        ({"rules": [{"max_body": "1M"}]}, [(("rules", 0, "max_body"), "invalid_value")]),
        ({"rules": [{"max_body": None}]}, [(("rules", 0, "max_body"), "invalid_value")]),
        ({"encoded_slash": "yes"}, [(("encoded_slash",), "bool_type")]),
        ({"inspect": None}, [(("inspect",), "invalid_value")]),
        ({"inspect": False, "rules": [{"methods": ["GET"]}]}, [(("inspect",), "invalid_value")]),
        ({"inspect": False, "encoded_slash": True}, [(("inspect",), "invalid_value")]),
        ({"reason": "a\u001b[31m"}, [(("reason",), "invalid_value")]),
        ({"reason": "a" * 1001}, [(("reason",), "string_too_long")]),
    ],
)
def test_reports_each_problem_of_an_entry_at_its_location(entry: dict[str, Any], expected: list[Any]) -> None:
    here = [(("domains", 0, *location), kind) for location, kind in expected]
    assert told({"domains": [{"host": "a.test", **entry}]}) == here


def test_a_rule_can_opt_out_of_the_ask_of_its_entry() -> None:
    rules = [{"methods": ["GET"]}, {"graphql": {"query": ["a"]}, "ask": False}]
    (entry,) = PolicySpec.model_validate({"domains": [{"host": "a.test", "ask": True, "rules": rules}]}).domains
    assert [entry.ask, *(rule.ask for rule in entry.rules)] == [True, None, False]


def test_an_allow_accepts_only_public_addresses_and_a_deny_also_private_ones() -> None:
    assert told({"domains": ["203.0.113.7", "10.0.0.1"]}) == [(("domains", 1), "invalid_value")]
    assert len(PolicySpec.model_validate({"deny": ["10.0.0.1"]}).deny) == 1


def test_parses_headers_to_a_pattern_and_max_body_to_bytes() -> None:
    rules = [{"headers": {"Accept": "x"}, "max_body": "1KB"}, {"methods": ["GET"]}]
    (entry,) = PolicySpec.model_validate({"domains": [{"host": "a.test", "rules": rules}]}).domains
    read = [(rule.header_pattern, rule.max_body) for rule in entry.rules]
    assert read == [(header_pattern({"accept": "x"}), 1000), (None, None)]


def test_rejects_max_body_in_a_deny() -> None:
    rules = [{"headers": {"accept": "x"}}, {"max_body": "1KB"}]
    assert told({"deny": [{"host": "a.test", "rules": rules}]}) == [
        (("deny", 0, "rules", 1, "max_body"), "invalid_value")
    ]


def test_allows_can_set_inspect_and_denies_cannot() -> None:
    entries = [
        {"host": "a.test", "inspect": False},
        {"host": "a.test", "inspect": True, "rules": [{"methods": ["GET"]}]},
    ]
    assert [entry.inspect for entry in PolicySpec.model_validate({"domains": entries}).domains] == [False, True]
    assert told({"deny": [entries[0]]}) == [(("deny", 0, "inspect"), "invalid_value")]


def place(**keys: object) -> dict[str, object]:
    return {"host_services": {"x": keys}}


def test_parses_a_host_service_with_its_target_and_methods() -> None:
    (service,) = PolicySpec.model_validate(place(to="host:80", methods=["GET"])).host_services.values()
    assert service.row("x") == host_service_row("x", Target(to="host", port=80), ())
    assert service.methods == ("GET",)


@each(
    ("keys", "expected"),
    [
        ({}, [(("to",), "missing")]),
        ({"to": 80}, [(("to",), "string_type")]),
        ({"to": "host"}, [(("to",), "invalid_value")]),
        ({"to": "10.0.0.0/24"}, [((), "invalid_value")]),
        ({"to": "host:80", "ports": [80]}, [((), "invalid_value")]),
        ({"to": "host:80", "rules": []}, [(("rules",), "extra_forbidden")]),
        ({"to": "host:80", "path": {"regex": "x"}}, [(("path", "regex"), "extra_forbidden")]),
    ],
)
def test_reports_an_invalid_host_service_at_its_location(keys: dict[str, object], expected: list[Any]) -> None:
    assert told(place(**keys)) == [(("host_services", "x", *location), kind) for location, kind in expected]
    assert told({"host_services": {"X": {"to": "host:80"}}}) == [(("host_services", "X", "[key]"), "invalid_value")]


def test_rejects_wildcards_over_public_suffixes_in_an_allow_but_not_in_a_deny() -> None:
    assert told({"domains": ["*.com", "*.example.com"]}) == [(("domains", 0), "invalid_value")]
    assert len(PolicySpec.model_validate({"deny": ["*.com", ".github.io"]}).deny) == 2


def test_accepts_a_single_star_with_ports_if_allow_all_is_set() -> None:
    (entry,) = PolicySpec.model_validate({"allow_all": True, "domains": [{"host": "*", "ports": [443]}]}).domains
    assert entry.host == EVERY


def test_rejects_a_graphql_rule_that_no_request_can_match() -> None:
    def domains(**rule: object) -> dict[str, object]:
        return {"domains": [{"host": "a.test", "rules": [{"graphql": {"query": ["viewer"]}, **rule}]}]}

    (entry,) = PolicySpec.model_validate(domains()).domains
    assert entry.rules[0].graphql is not None
    assert told(domains(methods=["GET"])) == [(("domains", 0, "rules", 0), "invalid_value")]


def test_rejects_an_mcp_rule_that_no_request_can_match() -> None:
    def domains(**rule: object) -> dict[str, object]:
        return {"domains": [{"host": "a.test", "rules": [{"mcp": {"tools": ["a"]}, **rule}]}]}

    (entry,) = PolicySpec.model_validate(domains(methods=["POST", "GET"])).domains
    assert entry.rules[0].mcp is not None
    assert told(domains(methods=["PUT"])) == [(("domains", 0, "rules", 0), "invalid_value")]
    assert told(domains(graphql={"query": ["a"]})) == [(("domains", 0, "rules", 0), "invalid_value")]


def test_rejects_a_single_star_without_allow_all_and_localhost_even_with_allow_all() -> None:
    assert [str(entry.host) for entry in PolicySpec.model_validate({"allow_all": True, "domains": ["*"]}).domains] == [
        "*"
    ]
    for refused in ({"domains": ["*"]}, {"allow_all": True, "domains": ["*", "localhost"]}):
        with pytest.raises(ValidationError):
            PolicySpec.model_validate(refused)


def test_rejects_transform_in_a_deny_and_with_plain_http_or_passthrough() -> None:
    key = {"request": {"headers": {"X-Key": {"secret": "key", "transform": {"type": "bearer"}}}}}

    def domains(**entry: object) -> dict[str, object]:
        return {"domains": [{"host": "a.test", **entry}]}

    (entry,) = PolicySpec.model_validate(domains(transform=key, rules=[{"transform": key}])).domains
    assert [entry.transform is None, entry.rules[0].transform is None] == [False, False]
    clear = {"schemes": ["http"]}
    assert told(domains(rules=[{"transform": key, **clear}])) == [(("domains", 0, "rules", 0), "invalid_value")]
    assert told(domains(transform=key, rules=[clear])) == [(("domains", 0), "invalid_value")]
    assert told(domains(transform=key, inspect=False)) == [(("domains", 0, "inspect"), "invalid_value")]
    denies = {"deny": [{"host": "a.test", "transform": key, "rules": [{"transform": key}]}]}
    assert told(denies) == [
        (("deny", 0, "rules", 0, "transform"), "invalid_value"),
        (("deny", 0, "transform"), "invalid_value"),
    ]
