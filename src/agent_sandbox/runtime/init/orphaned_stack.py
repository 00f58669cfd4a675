"""Find a project's earlier stack of another name, which none of our commands finds after `init`."""

from collections.abc import Iterable, Iterator

from agent_sandbox.render.paths import STACK
from agent_sandbox.render.record import parse_record
from agent_sandbox.runtime.init.initialise import Prepared
from agent_sandbox.runtime.project.installed import removal_of
from agent_sandbox.runtime.project.trust_snapshot import Standing


def orphaned_stack(prepared: Prepared, trusted: Iterable[Standing]) -> Iterator[str]:
    """Yield a note for a stack with the project's former name or from its former directory."""
    (before,) = (change.before for change in prepared.changes if change.path == STACK)
    record = parse_record(before or "")
    former, name = record.name if record else prepared.stack.name, prepared.stack.name
    if former == name:
        return
    kept = f"if it ever ran, its containers and volumes (with sign-in and history) remain until: {removal_of(former)}"
    if _place(former) == _place(name):
        yield f"the stack was named {former}: {kept}"
    for place in trusted:
        # A copied project still has its original, and a clone never had another stack here.
        if _name(place) == former and not place.root.exists():
            yield f"the project was in {place.root}, and its stack was {former}: {kept}"


def _place(name: str) -> str:
    return name.rpartition("-")[2]


def _name(place: Standing) -> str | None:
    record = parse_record(place.files.get(STACK, ""))
    return record.name if record else None
