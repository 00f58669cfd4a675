"""The table of drivers; a new engine is a folder, a row here and a row in `renderers.py`."""

from importlib import import_module

from agent_sandbox.engines.protocol import Driver

# The module of each driver, whose `DRIVER` is the driver. Only the chosen one is imported.
DRIVERS = {
    "compose": "agent_sandbox.engines.compose.driver",
}
DEFAULT = "compose"


def load_driver(name: str = DEFAULT) -> Driver:
    """Return a driver by its name in the table."""
    driver: Driver = import_module(DRIVERS[name]).DRIVER
    return driver
