"""What the documents show as a policy is one for the JSON Schema, too, and a slip of the hand is none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from agent_sandbox.policy.schema import policy_schema
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policyfile.resolved import RESOLVED

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = policy_schema({*shipped_services(), *RESOLVED})
EXAMPLES = sorted((ROOT / "docs" / "policy" / "examples").rglob("*.yaml"))
RENDERED = sorted((ROOT / "tests" / "golden").rglob("policy.yaml"))


def refused(policy: Any) -> list[str]:  # noqa: ANN401 - whatever a file holds
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors({} if policy is None else policy)]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", [*EXAMPLES, *RENDERED], ids=lambda path: "/".join(path.parts[-3:]))
def test_every_policy_that_is_shown_or_rendered_fits_the_schema(path: Path) -> None:
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
def test_a_slip_of_the_hand_is_seen_by_an_editor(text: str) -> None:
    assert refused(yaml.safe_load(text)) != []


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.parts[-3])
def test_the_first_line_of_a_rendered_policy_points_editors_at_the_schema(path: Path) -> None:
    first = path.read_text("utf-8").splitlines()[0]
    assert re.fullmatch(r"# yaml-language-server: \$schema=policy\.schema\.json \(.*\)", first)
