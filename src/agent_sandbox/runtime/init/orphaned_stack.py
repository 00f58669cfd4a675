"""What an earlier stack of a project keeps, where `init` makes one of another name: no command of ours finds it."""

from collections.abc import Iterable, Iterator

from agent_sandbox.render.paths import COMPOSE
from agent_sandbox.render.record import parse_record
from agent_sandbox.runtime.init.initialise import Prepared
from agent_sandbox.runtime.project.trust_snapshot import Standing

# From `/`, since `.env` would lead compose to the new stack's file, and its volumes would go.
REMOVED = "until: cd / && docker compose --project-name {} down --volumes"


def left_behind(prepared: Prepared, trusted: Iterable[Standing]) -> Iterator[str]:
    """Yield what is kept by a stack that was called otherwise, or that was made where the project lay before."""
    (before,) = (change.before for change in prepared.changes if change.path == COMPOSE)
    record = parse_record(before or "")
    former, name = record.name if record else prepared.stack.name, prepared.stack.name
    if former == name:
        return
    kept = f"if it ever ran, its containers and volumes, sign-in and history among them, stay {REMOVED.format(former)}"
    if _place(former) == _place(name):
        yield f"the stack was called {former}: {kept}"
    for place in trusted:
        # A copy leaves its original where it is, and a clone was never here.
        if _name(place) == former and not place.root.exists():
            yield f"the project lay in {place.root}, and its stack was {former}: {kept}"


def _place(name: str) -> str:
    return name.rpartition("-")[2]


def _name(place: Standing) -> str | None:
    record = parse_record(place.files.get(COMPOSE, ""))
    return record.name if record else None
