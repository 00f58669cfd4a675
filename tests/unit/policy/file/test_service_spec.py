from typing import Any

import pytest
from pydantic import ValidationError

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.entry_spec import RuleSpec
from agent_sandbox.policy.file.service_options import choose
from agent_sandbox.policy.file.service_spec import AccessSpec, ServiceRuleSpec, ServiceSpec, variants
from agent_sandbox.policy.file.spec import ServiceFileSpec
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from table_tests import each

GITHUB = ServiceFileSpec.model_validate(
    {"options": {"repos": "repositories", "git": {"access": ["read", "readwrite"]}}, "domains": ["a.test"]}
)
HOST = parse_host_pattern("a.test")
SERVICES = {"github": Layer(name="service github", file="github.yaml", spec=GITHUB, lines={})}


def told(value: object, known: object) -> list[tuple[tuple[int | str, ...], str, Any]]:
    with pytest.raises(ValidationError) as raised:
        ServiceSpec.model_validate(value, context={"services": known})
    return [(error["loc"], error["type"], error.get("ctx", {}).get("at")) for error in raised.value.errors()]


def test_rejects_unknown_services_and_invalid_options() -> None:
    assert told({"name": "clod"}, ["claude"]) == [(("name",), "word", None)]
    assert told({"name": "x", "merge_mode": "add", "readonly": 1}, ["x"]) == [
        (("merge_mode",), "literal_error", None),
        (("readonly",), "bool_type", None),
    ]


def test_accepts_an_alias_of_a_service_from_the_context() -> None:
    context = {
        "services": ["node"],
        "called": lambda word, names: "node" if (word, names) == ("npm", ["node"]) else None,
    }
    assert ServiceSpec.model_validate({"name": "npm"}, context=context).name == "node"
    with pytest.raises(ValidationError):
        ServiceSpec.model_validate({"name": "pip"}, context=context)


def test_checks_options_only_if_the_service_definition_is_in_the_context() -> None:
    assert told({"name": "github", "repos": ["a/b", "c"]}, SERVICES) == [((), "invalid_value", ("repos", 1))]
    good = ServiceSpec.model_validate(
        {"name": "github", "repos": ["a/b"], "readonly": True}, context={"services": SERVICES}
    )
    assert good.chosen(GITHUB.declared) == choose("github", GITHUB.declared, {"repos": ["a/b"]}, readonly=True)
    assert ServiceSpec.model_validate({"name": "x", "repos": 1}, context={"services": ["x"]}).model_extra == {
        "repos": 1
    }


@each(
    ("rule", "readonly", "methods"),
    [
        ({}, False, [()]),
        ({}, True, [("GET", "HEAD")]),
        ({"methods": ["GET", "POST"]}, True, [("GET",)]),
        ({"methods": ["POST"]}, True, []),
        ({"methods": ["POST"], "reads": True}, True, [("POST",)]),
        ({"when": {"git": "readwrite"}}, False, []),
    ],
)
def test_expands_a_rule_by_the_chosen_options_and_readonly(
    rule: dict[str, Any], methods: object, *, readonly: bool
) -> None:
    chosen = choose("github", GITHUB.declared, {}, readonly=readonly)
    assert [variant.methods for variant in variants(HOST, ServiceRuleSpec.model_validate(rule), chosen)] == methods


def test_expands_a_rule_for_each_repository() -> None:
    chosen = choose("github", GITHUB.declared, {"repos": ["a/b", "c/*"]})
    rule = ServiceRuleSpec.model_validate({"path": {"prefix": "/{repo}/"}})
    paths = [str(variant.path and variant.path.pattern) for variant in variants(HOST, rule, chosen)]
    assert paths == ["/a/b/...", "/c/*", "/c/*/**"]


def test_expands_a_confined_rule_once_with_all_repositories_with_enough_access() -> None:
    chosen = choose(
        "github",
        GITHUB.declared,
        {"repos": ["a/b", {"name": "a/c", "access": "read"}], "git": {"access": "readwrite"}},
    )
    confined = {"types": {"query": ["viewer"]}, "scoped": {}}
    for access, repositories in (("read", ("a/b", "a/c")), ("readwrite", ("a/b",))):
        rule = ServiceRuleSpec.model_validate({"when": {"git": access}, "confined": confined}, strict=False)
        (variant,) = variants(HOST, rule, chosen)
        assert variant.graphql
        assert variant.graphql.pattern.confined
        assert variant.graphql.pattern.confined.repositories == repositories


def test_readonly_limits_an_entry_without_rules_to_reading() -> None:
    (rule,) = variants(HOST, RuleSpec(), choose("x", {}, {}, readonly=True))
    assert rule.methods == ("GET", "HEAD")


def test_adds_a_secret_only_to_rules_that_require_its_option() -> None:
    access = AccessSpec.model_validate(
        {"access": ["read"], "auth": {"host": "a.test", "type": "basic", "username": "bot"}}
    )
    chosen = choose("x", {"git": access.declared}, {"git": {"access": "read", "auth": {"secret": "token"}}})
    (with_it,) = variants(HOST, ServiceRuleSpec.model_validate({"when": {"git": "read"}}), chosen)
    (without,) = variants(HOST, ServiceRuleSpec.model_validate({"methods": ["GET"]}), chosen)
    assert str(with_it.transform and with_it.transform.injection) == "secret token in authorization as 'bot'"
    assert without.transform is None
