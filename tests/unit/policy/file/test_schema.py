from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from agent_sandbox.policy.file.schema import policy_schema
from agent_sandbox.policy.file.spec import PolicySpec
from table_tests import each

PORT = {"type": "integer", "minimum": 1, "maximum": 65535}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return policy_schema()


def test_the_schema_knows_every_word_of_the_model(schema: dict[str, Any]) -> None:
    assert set(schema["properties"]) == set(PolicySpec.model_fields)
    assert schema["additionalProperties"] is False
    assert set(schema["$defs"]) == {
        *(
            "CredentialSpec",
            "DenyEntrySpec",
            "DenyRuleSpec",
            "DomainSpec",
            "GraphqlSpec",
            "HostServiceSpec",
            "KindSpec",
            "McpSpec",
        ),
        *("PathSpec", "QuerySpec", "RequestTransformSpec", "RuleSpec", "ServiceSpec", "SettingsSpec", "TestSpec"),
        *("AskSpec", "BudgetSpec", "ParameterSpec", "ShimSpec", "TransformSpec", "UpstreamSpec"),
    }


@each(
    ("model", "key", "expected"),
    [
        ("DomainSpec", "host", {"type": "string"}),
        ("DomainSpec", "ports", {"type": "array", "items": PORT, "minItems": 1, "maxItems": 100}),
        ("DomainSpec", "inspect", {"type": "boolean"}),
        ("RuleSpec", "max_body", {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
        ("RuleSpec", "path", {"$ref": "#/$defs/PathSpec"}),
        ("PathSpec", "glob", {"type": "string"}),
        ("HostServiceSpec", "to", {"type": "string"}),
        ("SettingsSpec", "upstream", {"$ref": "#/$defs/UpstreamSpec"}),
        ("UpstreamSpec", "proxy", {"type": "string"}),
        ("UpstreamSpec", "no_proxy", {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    ],
)
def test_what_may_stand_behind_a_key_is_said(
    schema: dict[str, Any], model: str, key: str, expected: dict[str, Any]
) -> None:
    assert schema["$defs"][model]["properties"][key] == expected


def test_an_entry_may_be_written_in_short_and_a_section_may_be_empty() -> None:
    domains = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/DomainSpec"}]}}
    assert policy_schema()["properties"]["domains"] == {"anyOf": [domains, {"type": "null"}]}


def test_the_names_of_services_are_offered_where_they_are_known() -> None:
    schema = policy_schema(["b", "a"])
    section = {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"$ref": "#/$defs/ServiceSpec"}]}
    assert schema["properties"]["services"]["anyOf"][0]["items"] == section
    assert schema["$defs"]["ServiceSpec"]["properties"]["name"]["enum"] == ["a", "b"]
    assert "enum" not in policy_schema()["$defs"]["ServiceSpec"]["properties"]["name"]


def test_the_older_words_of_a_rule_are_known_in_any_case(schema: dict[str, Any]) -> None:
    scheme = schema["$defs"]["DenyRuleSpec"]["properties"]["scheme"]
    pattern = "^([Hh][Tt][Tt][Pp]|[Hh][Tt][Tt][Pp][Ss])$"
    assert scheme == {"type": "string", "pattern": pattern, "deprecated": True, "description": "write `schemes`"}
    assert "method" in schema["$defs"]["RuleSpec"]["properties"]
    assert "method" not in schema["$defs"]["HostServiceSpec"]["properties"]


@each(
    "rules",
    [
        "[{method: GET, methods: [GET]}]",
        "[]",
        "[{}]",
        "[{methods: []}]",
        "[{path: {}}]",
        "[{path: {exact: /a, prefix: /b}}]",
        "[{graphql: {}}]",
        "[{mcp: {}}]",
        "[{mcp: {methods: [tools/call]}}]",
    ],
)
def test_what_says_nothing_or_two_things_is_marked_by_an_editor_too(schema: dict[str, Any], rules: str) -> None:
    said = {"domains": [{"host": "a.test", "rules": yaml.safe_load(rules)}]}
    assert not Draft202012Validator(schema).is_valid(said)
