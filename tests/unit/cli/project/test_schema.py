import json

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.cli.project.schema import schema
from agent_sandbox.resources import data_root


def test_the_schema_is_printed_with_the_agents_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    schema()
    agents, _ = json.loads(capsys.readouterr().out)["properties"]["agents"]["anyOf"]
    assert set(agents["items"]["enum"]) >= set(known_agents(data_root() / "templates"))
