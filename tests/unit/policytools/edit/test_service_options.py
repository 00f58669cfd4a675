import pytest

from agent_sandbox.policy import Layer, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit import service_options
from agent_sandbox.policytools.edit.editing import Readers
from agent_sandbox.policytools.edit.service_options import set_service_options
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
def test_sets_a_secret_and_keeps_the_rest_of_the_file(text: str, expected: str, line: int) -> None:
    edited = set_service_options(text, "api", {"secret": "api.key"}, READ)
    assert edited is not None
    assert (edited.text, edited.line) == (expected, line)


def test_does_not_change_a_service_that_already_has_the_secret() -> None:
    assert set_service_options("services: [{name: api, secret: own}]\n", "api", {"secret": "own"}, READ) is None


REPOS = {"repos": ["o/app", {"name": "o/lib", "access": "read"}], "git": {"access": "readwrite"}}


@each(
    ("text", "expected"),
    [
        (
            "services:\n  - api  # x\n",
            "services:\n  - {name: api, repos: [o/app, {name: o/lib, access: read}], git: {access: readwrite}}  # x\n",
        ),
        (
            "services: [{name: api, repos: [o/app], git: {access: read}, web: {}}]\n",
            "services: [{name: api, repos: [o/app, {name: o/lib, access: read}], git: {access: readwrite}, web: {}}]\n",
        ),
        (
            (
                "services:\n  - name: api  # a\n    repos:  # b\n      - o/app  # c\n      # d\n    git:\n"
                "      access: read  # e\n  - rust # f\n"
            ),
            (
                "services:\n  - name: api  # a\n    repos:  # b\n      - o/app  # c\n"
                "      - {name: o/lib, access: read}\n      # d\n    git:\n      access: readwrite  # e\n  - rust # f\n"
            ),
        ),
        (
            "services:\n  - name: api\n    repos:\n      - o/app\n      - o/lib  # w\n",
            (
                "services:\n  - name: api\n    repos:\n      - o/app\n      - {name: o/lib, access: read}  # w\n"
                "    git: {access: readwrite}\n"
            ),
        ),
        ("", "services:\n  - {name: api, repos: [o/app, {name: o/lib, access: read}], git: {access: readwrite}}\n"),
    ],
)
def test_sets_options_and_keeps_all_comments(text: str, expected: str) -> None:
    edited = set_service_options(text, "api", REPOS, READ)
    assert edited is not None
    assert edited.text == expected
    assert set_service_options(edited.text, "api", REPOS, READ) is None


def test_writes_a_long_entry_on_several_lines() -> None:
    options = {**REPOS, "api": {"access": "readwrite", "auth": {"secret": "token"}}}
    lines = (
        "name: api  # x\n    repos: [o/app, {name: o/lib, access: read}]\n    git: {access: readwrite}\n"
        "    api: {access: readwrite, auth: {secret: token}}\n"
    )
    for text, expected in (
        ("services:\n  - api  # x\n  # end\n", f"services:\n  - {lines}  # end\n"),
        ("", f"services:\n  - {lines.replace('  # x', '')}"),
    ):
        edited = set_service_options(text, "api", options, READ)
        assert edited is not None
        assert edited.text == expected


def test_reports_what_to_write_by_hand_if_the_file_cannot_be_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_options, "MAX_STEPS", 0)
    with pytest.raises(UserError) as raised:
        set_service_options("services: [api]\n", "api", {"secret": "api.key"}, READ)
    assert str(raised.value) == (
        "policy.yaml: cannot set the options of the service api in this file automatically; "
        "write `- {name: api, secret: api.key}` under `services` by hand"
    )
