import json

import pytest

from agent_sandbox.cli.policy.schema import schema
from agent_sandbox.policy.file.schema import DIALECT


def test_the_schema_is_printed_with_the_services_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    schema()
    printed = json.loads(capsys.readouterr().out)
    assert printed["$schema"] == DIALECT
    assert {"claude", "github", "python"} <= set(printed["$defs"]["ServiceSpec"]["properties"]["name"]["enum"])
