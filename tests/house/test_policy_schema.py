"""The JSON Schema accepts the policies that the documents show, and rejects typing errors."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from agent_sandbox.policy.file.schema import policy_schema
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.policyfile.resolved import RESOLVED
from agent_sandbox.problems import UserError

ROOT = Path(__file__).resolve().parents[2]
SERVICES = shipped_services()
SCHEMA = policy_schema({*SERVICES, *RESOLVED})
EXAMPLES = sorted((ROOT / "docs" / "policy" / "examples").rglob("*.yaml"))
RENDERED = sorted((ROOT / "tests" / "golden").rglob("policy.yaml"))


def refused(policy: Any) -> list[str]:  # noqa: ANN401 - whatever a file holds
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors({} if policy is None else policy)]


def loads(policy: Any) -> bool:  # noqa: ANN401 - as above
    try:
        parse_layer(yaml.safe_dump(policy), name="p", file="p", shown="p", services=SERVICES)
    except UserError:
        return False
    return True


def test_the_schema_is_a_valid_json_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", [*EXAMPLES, *RENDERED], ids=lambda path: "/".join(path.parts[-3:]))
def test_the_schema_accepts_every_example_and_every_rendered_policy(path: Path) -> None:
    assert refused(yaml.safe_load(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "domain: []",
        "domains: a.test",
        "domains: [{hots: a.test}]",
        "domains: [{host: a.test, ports: [443a]}]",
        "domains: [{host: a.test, rules: [{methods: [GTE]}]}]",
        "services: [pyton]",
        "allow: [a.test]",
        "host_services: {x: {too: y}}",
        "settings: {block_status: 500}",
        "tests: [{alow: x}]",
    ],
)
def test_the_schema_rejects_typing_errors(text: str) -> None:
    assert refused(yaml.safe_load(text)) != []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("domains: [{host: a.test, rules: [{method: get}]}]", True),
        ("domains: [{host: a.test, rules: [{method: Post, scheme: HTTPS}]}]", True),
        ("deny: [{host: a.test, rules: [{method: MOVE, scheme: http}]}]", True),
        ("domains: [{host: a.test, rules: [{method: GTE}]}]", False),
        ("domains: [{host: a.test, rules: [{method: [GET]}]}]", False),
        ("domains: [{host: a.test, rules: [{method: GET, methods: [PUT]}]}]", False),
        ("deny: [{host: a.test, rules: [{scheme: http, schemes: [http]}]}]", False),
        ("domains: [{host: a.test, rules: [{scheme: ftp}]}]", False),
        ("host_services: {x: {to: 'host:80', method: get}}", False),
    ],
)
def test_schema_and_loader_agree_on_older_keys(text: str, *, is_one: bool) -> None:
    policy = yaml.safe_load(text)
    assert (loads(policy), refused(policy) == []) == (is_one, is_one)


KINDS = {
    "bearer": True,
    "basic, username: u": True,
    "basic": False,
    "bearer, username: u": False,
    "digest": False,
}


@pytest.mark.parametrize(("kind", "is_one"), KINDS.items())
def test_schema_and_loader_agree_on_kinds_of_credentials(kind: str, *, is_one: bool) -> None:
    headers = f"{{X: {{secret: s, transform: {{type: {kind}}}}}}}"
    policy = yaml.safe_load(f"domains: [{{host: a.test, transform: {{request: {{headers: {headers}}}}}}}]")
    assert (loads(policy), refused(policy) == []) == (is_one, is_one)
    policy["deny"] = policy.pop("domains")
    assert (loads(policy), refused(policy) == []) == (False, False)


@pytest.mark.parametrize(
    "said", ["inspect: true", "rules: [{max_body: 1}]", "rules: [{graphql: {query: [a]}}]", "transform: null"]
)
def test_schema_and_loader_reject_keys_that_a_deny_cannot_have(said: str) -> None:
    policy = yaml.safe_load(f"deny: [{{host: a.test, {said}}}]")
    assert (loads(policy), refused(policy) == []) == (False, False)


RENAMED = {"methods": "method", "schemes": "scheme"}


def changed(value: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield copies of a value in which one part is changed or left out."""
    yield from (None, [], {}, "x", 0, [value])
    if isinstance(value, str):
        yield from (value.lower(), value.upper(), {"name": value}, {"host": value})
    if isinstance(value, list):
        yield from value if len(value) == 1 else ()
        yield from ([*value[:at], other, *value[at + 1 :]] for at, one in enumerate(value) for other in changed(one))
    if isinstance(value, dict):
        for key, one in value.items():
            rest = {name: part for name, part in value.items() if name != key}
            yield rest
            yield from (rest | {name: other} for other in changed(one) for name in {key, RENAMED.get(key, key)})


@pytest.mark.parametrize("name", ["older", "short", "inspect", "reload"])
def test_the_schema_accepts_every_changed_example_that_loads(name: str) -> None:
    policy = yaml.safe_load((ROOT / f"docs/policy/examples/{name}.yaml").read_text("utf-8"))
    editor = Draft202012Validator(SCHEMA)
    found = [other for other in changed(policy) if not editor.is_valid(with_lower_types(other or {})) and loads(other)]
    assert found == []


def with_lower_types(value: Any) -> Any:  # noqa: ANN401 - as above
    """Return the value with lower-case kinds of credentials: editors need not offer `Bearer`, which is read, too."""
    if isinstance(value, dict):
        return {
            key: one.lower() if key == "type" and isinstance(one, str) else with_lower_types(one)
            for key, one in value.items()
        }
    return [*map(with_lower_types, value)] if isinstance(value, list) else value


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.parts[-3])
def test_the_first_line_of_a_rendered_policy_points_editors_at_the_schema(path: Path) -> None:
    first = path.read_text("utf-8").splitlines()[0]
    assert re.fullmatch(r"# yaml-language-server: \$schema=policy\.schema\.json \(.*\)", first)
