from typing import Any

import pytest
from pydantic import ValidationError

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.file.test_spec import TestSpec
from table_tests import each


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
