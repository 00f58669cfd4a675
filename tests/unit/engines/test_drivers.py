import pytest

from agent_sandbox.engines.drivers import DEFAULT, DRIVERS, load_driver
from imports import brought_along


@pytest.mark.parametrize("name", DRIVERS)
def test_each_driver_has_a_planner(name: str) -> None:
    driver = load_driver(name)
    assert (hasattr(driver, "observe"), hasattr(driver.planner, "plan")) == (True, True)


def test_the_default_driver_is_in_the_table() -> None:
    assert DEFAULT in DRIVERS


def test_loading_the_driver_does_not_import_its_checks() -> None:
    found = brought_along("from agent_sandbox.engines.drivers import load_driver; load_driver()")
    assert "agent_sandbox.engines.compose.driver" in found
    assert "agent_sandbox.engines.compose.checks.host" not in found
