from typing import Any

import pytest

from agent_sandbox.agents.manifest import AgentManifest, NpmPackage, parse_manifest
from agent_sandbox.problems import Problem, UserError
from table_tests import each

VALID: dict[str, Any] = {
    "name": "example",
    "title": "Example",
    "summary": "An agent",
    "install": {"npm": {"package": "@example/agent", "version": "1.2.3"}},
    "command": ["example"],
    "unattended": ["--yes"],
    "version_command": ["example", "--version"],
    "state": ".example",
    "env": {"EXAMPLE_HOME": "/home/dev/.example"},
    "services": ["example"],
}


def test_a_manifest_says_what_the_image_is_built_with() -> None:
    manifest = parse_manifest(VALID | {"version_command": ["example", "say it"]}, file="f")
    assert manifest.build_arguments() == {
        "AGENT_NAME": "example",
        "NPM_PACKAGE": "@example/agent",
        "NPM_VERSION": "1.2.3",
        "VERSION_COMMAND": "example 'say it'",
        "AGENT_STATE": ".example",
    }


@each(
    "wrong",
    [
        {"nmae": "example"},
        {"name": "Example"},
        {"name": "-x"},
        {"title": "two\nlines"},
        {"command": []},
        {"command": ["a\nb"]},
        {"state": "../elsewhere"},
        {"state": "/etc"},
        {"state": ".a/../../b"},
        {"env": {"lower": "x"}},
        {"env": {"A": "x\ny"}},
        {"install": {"npm": {"package": "x; rm -rf /", "version": "1.0.0"}}},
        {"install": {"npm": {"package": "x", "version": "latest"}}},
        {"install": {}},
    ],
)
def test_what_could_break_out_of_its_place_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError) as raised:
        parse_manifest(VALID | wrong, file="f")
    assert len(raised.value.problems) == 1


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_what_is_no_mapping_is_no_manifest(document: object) -> None:
    with pytest.raises(UserError) as raised:
        parse_manifest(document, file="f")
    assert raised.value.problems == (Problem(where="f", what="`the manifest` must be a mapping"),)


def test_every_fault_is_told_at_once() -> None:
    wrong = {key: value for key, value in VALID.items() if key != "title"}
    wrong |= {"nmae": "x", "command": "example", "env": ["A=1"]}
    with pytest.raises(UserError) as raised:
        parse_manifest(wrong, file="f")
    assert [problem.what for problem in raised.value.problems] == [
        "unknown key `nmae` in the manifest",
        "`title` is missing in the manifest",
        "`command` must be a list of at least one",
        "`env` must be a mapping",
    ]


def test_a_manifest_is_a_value() -> None:
    assert parse_manifest(VALID, file="f") == AgentManifest(
        name="example",
        title="Example",
        summary="An agent",
        npm=NpmPackage(package="@example/agent", version="1.2.3"),
        command=("example",),
        unattended=("--yes",),
        version_command=("example", "--version"),
        state=".example",
        env={"EXAMPLE_HOME": "/home/dev/.example"},
        services=("example",),
    )


def test_variables_may_be_left_out() -> None:
    assert parse_manifest({key: value for key, value in VALID.items() if key != "env"}, file="f").env == {}
