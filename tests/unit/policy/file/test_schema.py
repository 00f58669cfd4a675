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


def test_the_schema_has_every_key_and_definition_of_the_model(schema: dict[str, Any]) -> None:
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
def test_describes_the_values_of_each_key(
    schema: dict[str, Any], model: str, key: str, expected: dict[str, Any]
) -> None:
    assert schema["$defs"][model]["properties"][key] == expected


def test_accepts_short_form_entries_and_empty_sections() -> None:
    domains = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/DomainSpec"}]}}
    assert policy_schema()["properties"]["domains"] == {"anyOf": [domains, {"type": "null"}]}


def test_lists_the_names_of_known_services() -> None:
    schema = policy_schema(["b", "a"])
    section = {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"$ref": "#/$defs/ServiceSpec"}]}
    assert schema["properties"]["services"]["anyOf"][0]["items"] == section
    assert schema["$defs"]["ServiceSpec"]["properties"]["name"]["enum"] == ["a", "b"]
    assert "enum" not in policy_schema()["$defs"]["ServiceSpec"]["properties"]["name"]


def test_accepts_the_deprecated_keys_method_and_scheme(schema: dict[str, Any]) -> None:
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
def test_rejects_empty_and_contradictory_rules(schema: dict[str, Any], rules: str) -> None:
    said = {"domains": [{"host": "a.test", "rules": yaml.safe_load(rules)}]}
    assert not Draft202012Validator(schema).is_valid(said)
