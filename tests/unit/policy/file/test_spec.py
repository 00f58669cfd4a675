from typing import Any

import pytest
from pydantic import ValidationError

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.file.service_options import Access
from agent_sandbox.policy.file.spec import MODELS, RESERVED_KEYS, PolicySpec, ServiceFileSpec, TestSpec
from table_tests import each


def told(value: object, services: tuple[str, ...] = ()) -> list[tuple[tuple[int | str, ...], str]]:
    with pytest.raises(ValidationError) as raised:
        PolicySpec.model_validate(value, context={"services": services})
    return [(error["loc"], error["type"]) for error in raised.value.errors()]


def test_an_empty_document_is_an_empty_policy() -> None:
    assert PolicySpec.model_validate({}) == PolicySpec()


def test_a_section_without_a_value_is_empty() -> None:
    sections = dict.fromkeys(("services", "domains", "allow", "deny", "tests", "host_services"))
    assert PolicySpec.model_validate(sections) == PolicySpec(
        services=(), domains=(), allow=(), deny=(), tests=(), host_services={}
    )


def test_short_form_entries_equal_long_form_entries() -> None:
    short = PolicySpec.model_validate({"services": ["x"], "domains": ["a.test"], "deny": ["b.test"]})
    long = PolicySpec.model_validate(
        {"services": [{"name": "x"}], "domains": [{"host": "a.test"}], "deny": [{"host": "b.test"}]}
    )
    assert short == long


def test_joins_a_reason_over_several_lines_to_one_line() -> None:
    assert PolicySpec.model_validate({"reason": "first\n  second\n"}).reason == "first second"


@each(
    ("value", "expected"),
    [
        ({"domain": []}, [(("domain",), "extra_forbidden")]),
        ({"version": 2}, [(("version",), "literal_error")]),
        ({"version": True}, [(("version",), "literal_error")]),
        ({"domains": "a.test"}, [(("domains",), "tuple_type")]),
        ({"domains": [None]}, [(("domains", 0), "model_type")]),
        ({"domains": [{}]}, [(("domains", 0, "host"), "missing")]),
        ({"domains": [{"host": 1}]}, [(("domains", 0, "host"), "string_type")]),
        ({"domains": ["*"]}, [(("domains", 0), "invalid_value")]),
        ({"domains": ["203.0.113.7", "10.0.0.1"]}, [(("domains", 1), "invalid_value")]),
        ({"allow": [{"host": "a.test"}]}, [(("allow", 0), "invalid_value")]),
        ({"settings": {"block_status": 500}}, [(("settings", "block_status"), "literal_error")]),
        ({"settings": {"inspect": None}}, [(("settings", "inspect"), "invalid_value")]),
        ({"settings": {"reload": "never"}}, [(("settings", "reload"), "literal_error")]),
        ({"settings": {"http1": "mitmproxy"}}, [(("settings", "http1"), "literal_error")]),
        ([], [((), "model_type")]),
    ],
)
def test_reports_an_invalid_policy_at_its_location(value: object, expected: list[Any]) -> None:
    assert told(value) == expected


@pytest.mark.parametrize("section", ["domains", "allow"])
def test_an_allow_accepts_a_single_star_only_with_allow_all(section: str) -> None:
    entries = {"domains": ["*"], "allow": ["GET https://*/"]}[section]
    assert told({section: entries}) == told({section: entries, "allow_all": False}) == [((section, 0), "invalid_value")]
    policy = PolicySpec.model_validate({"allow_all": True, section: entries})
    assert [str(entry.host) for entry in getattr(policy, section)] == ["*"]
    assert [str(entry.host) for entry in PolicySpec.model_validate({"deny": ["*"]}).deny] == ["*"]


def test_reports_all_problems_at_once() -> None:
    assert len(told({"version": 2, "domains": ["*a", "*", {"host": "a.test", "prots": [1]}], "x": 1})) == 5


def test_rejects_an_unknown_service() -> None:
    assert told({"services": ["clod"]}, services=("claude",)) == [(("services", 0, "name"), "word")]


def test_every_nested_key_has_a_model() -> None:
    below = {key for key, field in PolicySpec.model_fields.items() if field.annotation not in {int, str, bool}}
    assert below - {"version", "domains_file"} <= set(MODELS)


def test_a_service_declares_options_and_a_policy_has_none() -> None:
    options = {"repos": "repositories", "git": {"access": ["read", "readwrite"]}}
    declared = ServiceFileSpec.model_validate({"options": options}).declared
    assert declared == {"repos": "repositories", "git": Access(levels=("read", "readwrite"))}
    assert PolicySpec().declared == {}


def test_reserved_keys_are_not_keys_of_a_model() -> None:
    built = {(where, key) for where, model in MODELS.items() for key in model.model_fields}
    assert RESERVED_KEYS & built == set()
    assert {where for where, _ in RESERVED_KEYS} <= set(MODELS)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({"allow": "GET https://a.test/x?y=1"}, (Effect.ALLOW, "GET", "https://a.test/x?y=1")),
        ({"deny": "POST http://[::1]:8080"}, (Effect.DENY, "POST", "http://[::1]:8080")),
        # A request that the proxy rejects as ambiguous is a valid case: it is denied.
        ({"deny": "GET https://a.test/../b"}, (Effect.DENY, "GET", "https://a.test/../b")),
    ],
)
def test_parses_a_request_and_the_expected_effect(case: dict[str, Any], expected: object) -> None:
    read = TestSpec.model_validate(case)
    assert (read.effect, read.method, read.url) == expected
    assert (read.headers, read.body_size, read.reason) == (None, None, "")


def test_a_case_can_have_headers_and_a_body_size() -> None:
    case = {"allow": "POST https://a.test/", "headers": {"Accept": "x"}, "body_size": "1KB", "reason": "why"}
    read = TestSpec.model_validate(case)
    assert (read.headers, read.body_size, read.reason) == ({"Accept": "x"}, 1000, "why")


@each(
    ("case", "expected"),
    [
        ({}, ((), "invalid_value")),
        ({"allow": "GET https://a.test/", "deny": "GET https://a.test/"}, ((), "invalid_value")),
        ({"allow": None}, (("allow",), "string_type")),
        ({"allow": "a.test"}, (("allow",), "invalid_value")),
        ({"deny": "get https://a.test/"}, (("deny",), "invalid_value")),
        ({"deny": "GET ftp://a.test/"}, (("deny",), "invalid_value")),
        ({"deny": "GET https:///x"}, (("deny",), "invalid_value")),
        ({"deny": "GET https://a.test/", "body_size": "1M"}, (("body_size",), "invalid_value")),
        ({"deny": "GET https://a.test/", "headers": {"a": 1}}, (("headers", "a"), "string_type")),
        ({"deny": "GET https://a.test/", "header": {}}, (("header",), "extra_forbidden")),
    ],
)
def test_invalid_test_case_is_rejected_with_its_location(case: dict[str, Any], expected: object) -> None:
    with pytest.raises(ValidationError) as raised:
        TestSpec.model_validate(case)
    assert [(error["loc"], error["type"]) for error in raised.value.errors()] == [expected]


def test_a_case_can_have_graphql_but_not_with_a_body_size() -> None:
    assert TestSpec.model_validate({"allow": "POST https://a.test/", "graphql": "{a}"}).graphql == "{a}"
    with pytest.raises(ValidationError, match="determines the size of the body"):
        TestSpec.model_validate({"allow": "POST https://a.test/", "graphql": "{a}", "body_size": 1})


def test_a_case_can_have_an_mcp_message_but_not_with_graphql() -> None:
    for text in ("tools/call search", "ping", "notifications/initialized"):
        assert TestSpec.model_validate({"allow": "POST https://a.test/", "mcp": text}).mcp == text
    for wrong in ("", "tools/call a b"):
        with pytest.raises(ValidationError, match="not an MCP message"):
            TestSpec.model_validate({"allow": "POST https://a.test/", "mcp": wrong})
    with pytest.raises(ValidationError, match="`graphql` already determines the size of the body"):
        TestSpec.model_validate({"allow": "POST https://a.test/", "mcp": "ping", "graphql": "{a}"})
