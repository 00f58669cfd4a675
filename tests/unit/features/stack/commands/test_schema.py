import json

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.stack.commands.schema import schema
from agent_sandbox.resources import data_root


def test_prints_a_schema_that_lists_the_known_agents(capsys: pytest.CaptureFixture[str]) -> None:
    schema()
    agents, _ = json.loads(capsys.readouterr().out)["properties"]["agents"]["anyOf"]
    assert set(agents["items"]["enum"]) >= set(known_agents(data_root() / "templates"))
