from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.checks.table import checks_of
from agent_sandbox.runtime.compose.driver import DRIVER
from agent_sandbox.runtime.compose.engine import DOCKER
from agent_sandbox.runtime.driver.protocol import Feature


def names(*features: Feature) -> set[str]:
    return {row.name for row in checks_of(EngineHost(engine=DOCKER, features=frozenset(features)))}


def test_skips_checks_for_features_that_the_engine_does_not_have() -> None:
    assert names(*DRIVER.features) - names() == {"buildx", "isolation", "platform"}


def test_the_names_of_checks_are_unique() -> None:
    rows = [row.name for row in checks_of(EngineHost(engine=DOCKER, features=DRIVER.features))]
    assert sorted(set(rows)) == sorted(rows)
