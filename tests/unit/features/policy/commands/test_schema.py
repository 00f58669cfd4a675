import json

import pytest

from agent_sandbox.features.policy.commands.schema import schema
from agent_sandbox.policy.file.schema import DIALECT


def test_prints_a_schema_that_lists_the_known_services(capsys: pytest.CaptureFixture[str]) -> None:
    schema()
    printed = json.loads(capsys.readouterr().out)
    assert printed["$schema"] == DIALECT
    assert {"claude", "github", "python"} <= set(printed["$defs"]["ServiceSpec"]["properties"]["name"]["enum"])
