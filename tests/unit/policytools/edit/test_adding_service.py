import pytest

from agent_sandbox.policy import Layer, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit.adding_service import add_service
from agent_sandbox.policytools.edit.editing import Readers
from agent_sandbox.problems import UserError
from table_tests import each


def layer(text: str) -> Layer:
    return parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=("go", "rust"))


READ = Readers(file="policy.yaml", layer=layer, policy=lambda layer: compile_policy([layer], {}))


@each(
    ("text", "expected", "line"),
    [
        ("domains: [a.test]\n", "domains: [a.test]\nservices:\n  - go\n", 3),
        ("services:\n  - rust  # mine\n", "services:\n  - rust  # mine\n  - go\n", 3),
        ("services: [rust]\n", "services: [rust, go]\n", 1),
    ],
)
def test_adds_one_line_to_the_section(text: str, expected: str, line: int) -> None:
    edited = add_service(text, "go", READ)
    assert (edited.text, edited.line) == (expected, line)


def test_refuses_to_edit_a_file_with_an_unsupported_layout() -> None:
    with pytest.raises(UserError) as raised:
        add_service("{domains: [a.test], services}\n", "go", READ)
    what = "policy.yaml: cannot add the service go to this file automatically; add `- go` under `services` by hand"
    assert str(raised.value) == what
