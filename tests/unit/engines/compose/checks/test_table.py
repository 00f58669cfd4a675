from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.table import checks_of
from agent_sandbox.engines.compose.engine import DOCKER


def test_the_names_of_checks_are_unique() -> None:
    rows = [row.name for row in checks_of(EngineHost(engine=DOCKER))]
    assert sorted(set(rows)) == sorted(rows)
