import pytest

from agent_sandbox.policy import Layer, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit.editing import Readers
from agent_sandbox.policytools.edit.merging import Values, merge
from agent_sandbox.problems import UserError
from table_tests import each


def layer(text: str) -> Layer:
    return parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=())


READ = Readers(file="policy.yaml", layer=layer, policy=lambda layer: compile_policy([layer], {}))
SIGN: Values = {"settings": {"sign_commits": "git.key"}}
HOSTS: Values = {"domains": [{"host": "a.test", "rules": [{"methods": ["GET"]}]}, {"host": "b.test"}]}


@each(
    ("text", "expected", "line"),
    [
        ("domains: [a.test]\n", "domains: [a.test]\nsettings:\n  sign_commits: git.key\n", 2),
        ("", "settings:\n  sign_commits: git.key\n", 1),
        ("# mine\n", "# mine\nsettings:\n  sign_commits: git.key\n", 2),
        (
            "settings:\n  reload: watch # x\ndomains: [a.test]\n",
            "settings:\n  reload: watch # x\n  sign_commits: git.key\ndomains: [a.test]\n",
            3,
        ),
        ("settings: {reload: watch}\n", "settings: {reload: watch, sign_commits: git.key}\n", 1),
        ("settings: # none\n# more\n", "settings: # none\n  sign_commits: git.key\n# more\n", 2),
        ("settings: {}\n", "settings: {sign_commits: git.key}\n", 1),
        ("settings:\n  sign_commits: other # x\n", "settings:\n  sign_commits: git.key # x\n", 2),
    ],
)
def test_adds_a_setting_and_keeps_the_rest_of_the_file(text: str, expected: str, line: int) -> None:
    edited = merge(text, SIGN, READ)
    assert edited is not None
    assert (edited.text, edited.line) == (expected, line)


@each(
    ("text", "expected"),
    [
        (
            "version: 1\n",
            "version: 1\ndomains:\n  - host: a.test\n    rules:\n    - methods: [GET]\n  - {host: b.test}\n",
        ),
        (
            "domains:\n- b.test # x\n- {host: b.test}\nversion: 1\n",
            "domains:\n- b.test # x\n- {host: b.test}\n- host: a.test\n  rules:\n  - methods: [GET]\nversion: 1\n",
        ),
        (
            "domains:\n  # - c.test\nversion: 1\n",
            (
                "domains:\n  - host: a.test\n    rules:\n    - methods: [GET]\n  - {host: b.test}\n  # - c.test\n"
                "version: 1\n"
            ),
        ),
        (
            "domains: [b.test]\n",
            "domains: [b.test, {host: a.test, rules: [{methods: [GET]}]}, {host: b.test}]\n",
        ),
    ],
)
def test_adds_entries_that_the_file_does_not_have(text: str, expected: str) -> None:
    edited = merge(text, HOSTS, READ)
    assert edited is not None
    assert edited.text == expected


@each("text", ["settings:\n  sign_commits: git.key\n", "settings: {sign_commits: git.key}\n"])
def test_does_not_change_a_file_that_already_has_the_setting(text: str) -> None:
    assert merge(text, SIGN, READ) is None


@each("text", ["{version: 1}\n", "settings: null\n"])
def test_refuses_to_edit_a_file_with_an_unsupported_layout(text: str) -> None:
    with pytest.raises(UserError) as refused:
        merge(text, SIGN, READ)
    assert str(refused.value) == (
        "policy.yaml: cannot change this file automatically; add by hand: settings: {sign_commits: git.key}"
    )


def test_does_not_write_values_that_the_policy_rejects() -> None:
    with pytest.raises(UserError, match="not a secret name"):
        merge("version: 1\n", {"settings": {"sign_commits": "a b"}}, READ)
