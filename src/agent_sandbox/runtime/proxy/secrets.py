"""The names and hosts of a running proxy's secrets. No command returns a value."""

from collections.abc import Iterator
from typing import Any

from agent_sandbox.backends.plan import Plan
from agent_sandbox.bounded_json import read_json
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.proxy.control import OTHER, tell_stack


def held_secrets(driver: Driver, plan: Plan) -> tuple[Bound, ...]:
    """Run the plan's command and return the listed secrets, sorted by name."""
    try:
        listed = tuple(_read(read_json(tell_stack(driver, plan))))
    except (ValueError, TypeError, KeyError) as error:
        raise UserError([OTHER]) from error
    return tuple(sorted(listed, key=lambda one: one.name))


def _read(rows: Any) -> Iterator[Bound]:  # noqa: ANN401 - whatever the answer holds
    for row in rows:
        hosts = tuple(sorted(map(str, row["hosts"])))
        yield Bound(name=str(row["name"]), hosts=hosts, problem=str(row.get("problem", "")))
