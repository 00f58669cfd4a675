from typing import Any

import pytest
from pydantic import ValidationError

from agent_sandbox.agents.manifest import AgentManifest

VALID: dict[str, Any] = {
    "name": "example",
    "title": "Example",
    "summary": "An agent",
    "install": {"npm": {"package": "@example/agent", "version": "1.2.3"}},
    "command": ["example"],
    "version_command": ["example", "--version"],
    "state": ".example",
    "env": {"EXAMPLE_HOME": "/home/dev/.example"},
    "services": ["example"],
}


def test_a_manifest_says_what_the_image_is_built_with() -> None:
    manifest = AgentManifest.model_validate(VALID | {"version_command": ["example", "say it"]})
    assert manifest.build_arguments() == {
        "AGENT_NAME": "example",
        "NPM_PACKAGE": "@example/agent",
        "NPM_VERSION": "1.2.3",
        "VERSION_COMMAND": "example 'say it'",
        "AGENT_STATE": ".example",
    }


@pytest.mark.parametrize(
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
    ids=str,
)
def test_what_could_break_out_of_its_place_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentManifest.model_validate(VALID | wrong)
