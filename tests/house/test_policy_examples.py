"""Every example of the policy language is a file that loads and decides as its cases file says."""

import re
from pathlib import Path

import pytest

from agent_sandbox.policy import Ambiguous, Effect, Policy, compile_policy, decide
from agent_sandbox.policy.file.spec import RESERVED_KEYS, TestSpec
from agent_sandbox.policy.match.credential_kind import KINDS, CredentialKind
from agent_sandbox.policyfile import layer_beside, load_layer, load_policy, shipped_services
from agent_sandbox.policyfile.layer_file import BESIDE, LayerFile
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "policy"
SCHEMA = (FOLDER / "schema.md").read_text("utf-8")
DOCUMENTS = [path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))]
EXAMPLES = sorted((FOLDER / "examples").glob("*.yaml"))
LAYERED = sorted((FOLDER / "examples").glob("*/project.yaml"))


def answer(policy: Policy, line: str) -> str:
    method, _, url = line.partition(" ")
    try:
        return str(decide(policy, read_request(policy, RequestLine(method=method, url=url))).effect)
    except Ambiguous:
        return "doubt"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_decides_as_its_cases_file_says(example: Path) -> None:
    assert_decides(load_policy(example), example)


@pytest.mark.parametrize("example", LAYERED, ids=lambda path: path.parent.name)
def test_each_example_with_layers_decides_as_its_cases_file_says(example: Path) -> None:
    layers = [layer_beside(name, example.with_name(f"{name}.yaml")) for name in BESIDE]
    assert_decides(load_policy(example, layers=layers), example)


def assert_decides(policy: Policy, example: Path) -> None:
    cases = [line.partition(" ") for line in example.with_suffix(".cases").read_text("utf-8").splitlines()]
    answers = [f"{answer(policy, line)} {line}" for _, _, line in cases]
    assert answers == [f"{expected} {line}" for expected, _, line in cases]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_each_kind_of_credential_is_documented(kind: CredentialKind) -> None:
    key = "`query: {" if kind.in_query else f"`transform: {{type: {kind.name}"
    documented = (FOLDER / "secret-headers.md").read_text("utf-8")
    rows = [line for line in documented.splitlines() if line.startswith(f"| {key}")]
    assert len(rows) == 1
    assert kind.summary in rows[0]
    assert all(f"{option}: " in rows[0] for option in kind.options)


def test_the_tests_in_the_examples_pass() -> None:
    services = shipped_services()
    layers = [load_layer(LayerFile(name="project", path=path), services=services) for path in EXAMPLES]
    tried = [(compile_policy([layer], services), case) for layer in layers for case in layer.spec.tests]
    failed = [case for policy, case in tried if answered(policy, case) is not case.effect]
    assert (len(tried) > 0, failed) == (True, [])


def answered(policy: Policy, case: TestSpec) -> Effect:
    headers = tuple((case.headers or {}).items())
    line = RequestLine(
        method=case.method,
        url=case.url,
        headers=headers,
        body_size=case.body_size,
        graphql=case.graphql,
        mcp=case.mcp,
    )
    try:
        return decide(policy, read_request(policy, line)).effect
    except Ambiguous:
        return Effect.DENY


def test_the_documents_show_every_example_unchanged() -> None:
    pattern = r"<!-- (examples/\S+) -->\n```yaml\n(.*?)```"
    shown = dict(found for text in DOCUMENTS for found in re.findall(pattern, text, re.DOTALL))
    files = (FOLDER / "examples").rglob("*.yaml")
    assert shown == {str(path.relative_to(FOLDER)): path.read_text("utf-8") for path in files}


def test_the_schema_page_names_every_reserved_key() -> None:
    assert [key for _, key in RESERVED_KEYS if f"`{key}`" not in SCHEMA] == []
