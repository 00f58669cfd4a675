from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.checks.table import checks_of
from agent_sandbox.runtime.compose.driver import DRIVER
from agent_sandbox.runtime.compose.engine import DOCKER
from agent_sandbox.runtime.driver.protocol import Feature


def names(*features: Feature) -> set[str]:
    return {row.name for row in checks_of(EngineHost(engine=DOCKER, features=frozenset(features)))}


def test_what_an_engine_does_not_have_is_not_checked() -> None:
    assert names(*DRIVER.features) - names() == {"buildx", "isolation", "platform"}


def test_each_name_stands_once() -> None:
    rows = [row.name for row in checks_of(EngineHost(engine=DOCKER, features=DRIVER.features))]
    assert sorted(set(rows)) == sorted(rows)
