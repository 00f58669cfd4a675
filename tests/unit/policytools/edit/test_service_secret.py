import pytest

from agent_sandbox.policy import Layer, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit.editing import Readers
from agent_sandbox.policytools.edit.service_secret import set_service_secret
from agent_sandbox.problems import UserError
from table_tests import each


def layer(text: str) -> Layer:
    return parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=("api", "rust"))


READ = Readers(file="policy.yaml", layer=layer, policy=lambda layer: compile_policy([layer], {}))


@each(
    ("text", "expected", "line"),
    [
        ("domains: [a.test]\n", "domains: [a.test]\nservices:\n  - {name: api, secret: api.key}\n", 3),
        (
            "services:\n  - api  # mine\n  - rust\n",
            "services:\n  - {name: api, secret: api.key}  # mine\n  - rust\n",
            2,
        ),
        ("services: [rust, api]\n", "services: [rust, {name: api, secret: api.key}]\n", 1),
        ('services: ["api"]\n', "services: [{name: api, secret: api.key}]\n", 1),
        (
            "services:\n  - {name: api, readonly: true} # x\n",
            "services:\n  - {name: api, readonly: true, secret: api.key} # x\n",
            2,
        ),
        (
            "services:\n  - name: api\n    readonly: true\n  - rust\n",
            "services:\n  - name: api\n    readonly: true\n    secret: api.key\n  - rust\n",
            2,
        ),
        ("services: [rust]\n", "services: [rust, {name: api, secret: api.key}]\n", 1),
    ],
)
def test_a_service_gets_its_secret_and_all_else_stays(text: str, expected: str, line: int) -> None:
    edited = set_service_secret(text, "api", "secret", "api.key", READ)
    assert edited is not None
    assert (edited.text, edited.line) == (expected, line)


def test_a_service_that_has_a_secret_is_left_as_it_is() -> None:
    assert set_service_secret("services: [{name: api, secret: own}]\n", "api", "secret", "api.key", READ) is None


def test_a_file_of_unusual_form_is_left_to_the_user() -> None:
    with pytest.raises(UserError) as raised:
        set_service_secret("services: [{name: api, readonly: true, }]\n", "api", "secret", "a b: c", READ)
    assert str(raised.value) == (
        "policy.yaml: cannot give the service api its secret in this file automatically; "
        "write `- {name: api, secret: a b: c}` under `services` by hand"
    )
