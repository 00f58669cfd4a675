"""The secrets that a proxy has, with hosts and uses. No command returns a value."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.proxy.control import OTHER, tell_secrets
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project


class Held(Bound, frozen=True, kw_only=True):
    """A secret in the proxy. Times are in UTC; `expires` is None for a value without a time to live."""

    uses: int = 0
    last_use: datetime | None = None
    expires: datetime | None = None


def held_secrets(driver: Driver, project: Project, *, runs: bool = True) -> tuple[Held, ...]:
    """Return the secrets of the project's proxy, sorted by name."""
    try:
        listed = tuple(_read(read_json(tell_secrets(driver, project, "list", runs=runs))))
    except (ValueError, TypeError, KeyError) as error:
        raise UserError([OTHER]) from error
    return tuple(sorted(listed, key=lambda one: one.name))


def _read(rows: Any) -> Iterator[Held]:  # noqa: ANN401 - whatever the answer holds
    for row in rows:
        yield Held(
            name=str(row["name"]),
            hosts=tuple(sorted(map(str, row["hosts"]))),
            problem=str(row.get("problem", "")),
            uses=int(row.get("uses", 0)),
            last_use=time_of(row.get("last_use")),
            expires=time_of(row.get("expires")),
        )


def time_of(seconds: Any) -> datetime | None:  # noqa: ANN401 - as above
    """Return a time that the proxy reports, None for none."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC).replace(microsecond=0) if seconds else None
    except (OverflowError, OSError) as error:
        raise ValueError from error
