from typing import Any

import pytest
from pydantic import ValidationError

from agent_sandbox.policy.hostpattern import parse_host_pattern
from agent_sandbox.policy.pathpattern import PathKind, parse_path_pattern
from agent_sandbox.policy.query import query_pattern
from agent_sandbox.policy.spec import MODELS, PolicySpec


def told(value: object, services: tuple[str, ...] = ()) -> list[tuple[tuple[int | str, ...], str]]:
    with pytest.raises(ValidationError) as raised:
        PolicySpec.model_validate(value, context={"services": services})
    return [(error["loc"], error["type"]) for error in raised.value.errors()]


def test_nothing_written_is_a_policy_that_says_nothing() -> None:
    assert PolicySpec.model_validate({}) == PolicySpec()


def test_a_section_whose_lines_are_all_comments_is_empty() -> None:
    sections = {"services": None, "domains": None, "allow": None, "deny": None}
    assert PolicySpec.model_validate(sections) == PolicySpec(services=(), domains=(), allow=(), deny=())


def test_short_spellings_are_entries_like_the_long_ones() -> None:
    short = PolicySpec.model_validate({"services": ["x"], "domains": ["a.test"], "deny": ["b.test"]})
    long = PolicySpec.model_validate(
        {"services": [{"name": "x"}], "domains": [{"host": "a.test"}], "deny": [{"host": "b.test"}]}
    )
    assert short == long


def test_a_reason_over_several_lines_is_one_line() -> None:
    assert PolicySpec.model_validate({"reason": "first\n  second\n"}).reason == "first second"


def test_one_value_of_a_parameter_needs_no_list() -> None:
    def policy(value: object) -> PolicySpec:
        rule = {"query": {"exact": {"ref": value}}}
        return PolicySpec.model_validate({"domains": [{"host": "a.test", "rules": [rule]}]})

    assert policy("main") == policy(["main"])


@pytest.mark.parametrize("kind", ["exact", "prefix", "glob"])
def test_a_rule_holds_values_not_text(kind: str) -> None:
    rule = {"methods": ["GET"], "path": {kind: "/a"}, "query": {"exact": {"ref": "main"}}}
    spec = PolicySpec.model_validate({"domains": [{"host": "*.A.test", "rules": [rule]}]})
    (entry,) = spec.domains
    (read,) = entry.rules
    assert entry.host == parse_host_pattern("*.a.test")
    assert read.path is not None
    assert read.path.pattern == parse_path_pattern(PathKind(kind), "/a")
    assert read.query is not None
    assert read.query.pattern == query_pattern({"ref": ["main"]})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"domain": []}, [(("domain",), "extra_forbidden")]),
        ({"version": 2}, [(("version",), "literal_error")]),
        ({"domains": "a.test"}, [(("domains",), "tuple_type")]),
        ({"domains": [None]}, [(("domains", 0), "model_type")]),
        ({"domains": [{}]}, [(("domains", 0, "host"), "missing")]),
        ({"domains": [{"host": 1}]}, [(("domains", 0, "host"), "string_type")]),
        ({"domains": ["*"]}, [(("domains", 0, "host"), "unfit")]),
        ({"domains": ["203.0.113.7", "10.0.0.1"]}, [(("domains", 1), "unfit")]),
        ({"allow": [{"host": "a.test"}]}, [(("allow", 0), "unfit")]),
        ({"settings": {"block_status": 500}}, [(("settings", "block_status"), "literal_error")]),
        ([], [((), "model_type")]),
    ],
)
def test_what_is_no_policy_is_refused_where_it_stands(value: object, expected: list[Any]) -> None:
    assert told(value) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"ports": [0]}, [(("ports", 0), "greater_than_equal")]),
        ({"ports": ["443"]}, [(("ports", 0), "int_type")]),
        ({"ports": [True]}, [(("ports", 0), "int_type")]),
        ({"ports": []}, [(("ports",), "unfit")]),
        ({"rules": []}, [(("rules",), "unfit")]),
        ({"rules": [{"methods": "GET"}]}, [(("rules", 0, "methods"), "tuple_type")]),
        ({"rules": [{"methods": ["GTE"]}]}, [(("rules", 0, "methods", 0), "word")]),
        ({"rules": [{"methods": ["TRACE"]}]}, [(("rules", 0, "methods", 0), "word")]),
        ({"rules": [{"schemes": ["ftp"]}]}, [(("rules", 0, "schemes", 0), "literal_error")]),
        ({"rules": [{"path": {}}]}, [(("rules", 0, "path"), "unfit")]),
        ({"rules": [{"path": {"exact": "/a", "prefix": "/b"}}]}, [(("rules", 0, "path"), "unfit")]),
        ({"rules": [{"path": {"exact": "/a/../b"}}]}, [(("rules", 0, "path", "exact"), "unfit")]),
        ({"rules": [{"path": {"exact": None}}]}, [(("rules", 0, "path", "exact"), "string_type")]),
        ({"rules": None}, [(("rules",), "tuple_type")]),
        ({"rules": [{"methods": None}]}, [(("rules", 0, "methods"), "tuple_type")]),
        ({"rules": [{"path": None}]}, [(("rules", 0, "path"), "unfit")]),
        ({"rules": [{"query": None}]}, [(("rules", 0, "query"), "unfit")]),
        ({"rules": [{"query": {}}]}, [(("rules", 0, "query", "exact"), "missing")]),
        ({"rules": [{"query": {"exact": {"a": []}}}]}, [(("rules", 0, "query", "exact", "a"), "unfit")]),
        ({"encoded_slash": "yes"}, [(("encoded_slash",), "bool_type")]),
        ({"reason": "a\u001b[31m"}, [(("reason",), "unfit")]),
        ({"reason": "a" * 1001}, [(("reason",), "string_too_long")]),
    ],
)
def test_every_problem_of_an_entry_is_told_where_it_stands(entry: dict[str, Any], expected: list[Any]) -> None:
    here = [(("domains", 0, *location), kind) for location, kind in expected]
    assert told({"domains": [{"host": "a.test", **entry}]}) == here


def test_all_problems_are_told_at_once() -> None:
    assert len(told({"version": 2, "domains": ["*", {"host": "a.test", "prots": [1]}], "x": 1})) == 4


def test_a_service_is_one_that_is_known() -> None:
    assert told({"services": ["clod"]}, services=("claude",)) == [(("services", 0, "name"), "word")]


def test_below_each_key_stands_the_model_whose_words_are_known_there() -> None:
    below = {key for key, field in PolicySpec.model_fields.items() if field.annotation not in {int, str}}
    assert below - {"version", "title", "reason"} <= set(MODELS)
