"""Every example of the policy language is a file, loads, and decides as the document beside it says."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent_sandbox.policy import Ambiguous, Policy, decide, parse_request
from agent_sandbox.policy.planned import PLANNED
from agent_sandbox.policyfile import layer_beside, load_policy, shipped_services
from agent_sandbox.policyfile.layerfile import BESIDE

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "policy"
SCHEMA = (FOLDER / "schema.md").read_text("utf-8")
DOCUMENTS = [path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))]
EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))
LAYERED = sorted((FOLDER / "examples").glob("*/project.yaml"))


def answer(policy: Policy, line: str) -> str:
    method, _, url = line.partition(" ")
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
    try:
        request = parse_request(
            scheme=parts.scheme,
            host=host,
            port=port,
            method=method,
            target=url.partition(parts.netloc)[2],
            encoded_slash=policy.takes_encoded_slash(host),
        )
    except Ambiguous:
        return "doubt"
    return str(decide(policy, request).effect)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_decides_as_it_says(example: Path) -> None:
    assert_decides(load_policy(example), example)


@pytest.mark.parametrize("example", LAYERED, ids=lambda path: path.parent.name)
def test_an_example_of_layers_decides_as_it_says(example: Path) -> None:
    layers = [layer_beside(name, example.with_name(f"{name}.yaml")) for name in BESIDE]
    assert_decides(load_policy(example, layers=layers), example)


def assert_decides(policy: Policy, example: Path) -> None:
    cases = [line.partition(" ") for line in example.with_suffix(".cases").read_text("utf-8").splitlines()]
    answers = [f"{answer(policy, line)} {line}" for _, _, line in cases]
    assert answers == [f"{expected} {line}" for expected, _, line in cases]


def test_every_example_stands_in_the_document_as_it_is() -> None:
    pattern = r"<!-- (examples/\S+) -->\n```yaml\n(.*?)```"
    shown = dict(found for text in DOCUMENTS for found in re.findall(pattern, text, re.DOTALL))
    files = (FOLDER / "examples").rglob("*.yaml")
    assert shown == {str(path.relative_to(FOLDER)): path.read_text("utf-8") for path in files}


def test_the_document_names_every_service_and_every_word_that_is_planned() -> None:
    assert [name for name in shipped_services() if f"| `{name}` |" not in SCHEMA] == []
    assert [key for _, key in PLANNED if f"`{key}`" not in SCHEMA] == []
