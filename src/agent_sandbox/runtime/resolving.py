"""`policy services resolve`: asks, and says what would be written beside the policy. Writing is a second step."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent_sandbox.detect import Offer
from agent_sandbox.policyfile.resolved import RESOLVED
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.reconcile import Change, OnConflict, Verdict
from agent_sandbox.render.registries import path_of, resolved_service
from agent_sandbox.runtime.files import read_text, write_all
from agent_sandbox.runtime.registries import Machine, registries


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What becomes of each service's file, which hosts it names, and for which services nothing was found."""

    changes: tuple[Change, ...]
    offers: Mapping[str, tuple[Offer, ...]]
    nothing: tuple[Problem, ...]

    @property
    def kept(self) -> tuple[Change, ...]:
        """The files on which a person has to decide."""
        return tuple(change for change in self.changes if change.verdict is Verdict.KEPT)


def resolve(
    name: str | None, policy: Path, machine: Machine, *, source: Path | None = None, force: bool = False
) -> Resolved:
    """Return what would be written for one service, or for each for which something is found; only reads."""
    if name is not None and name not in RESOLVED:
        hint = f"known are {', '.join(RESOLVED)}: all others ship with agent-sandbox"
        raise UserError([Problem(where=name, what="is no service that is resolved", hint=hint)])
    found: dict[str, tuple[Offer, ...]] = {}
    nothing: list[Problem] = []
    more = [source] if source else []
    for one in [name] if name else RESOLVED:
        try:
            found[one] = registries(one, policy.parent.parent, machine, more=more)
        except UserError as error:
            nothing += error.problems
    if not found:
        raise UserError(nothing)
    on_conflict = OnConflict.REPLACE if force else OnConflict.KEEP
    date = datetime.now(UTC).date().isoformat()
    return Resolved(
        changes=tuple(
            resolved_service(
                one, offers, date=date, before=read_text(policy.parent, path_of(one)), on_conflict=on_conflict
            )
            for one, offers in found.items()
        ),
        offers=found,
        nothing=tuple(nothing),
    )


def write(policy: Path, resolved: Resolved) -> None:
    """Write what changes beside the policy: all of it or nothing."""
    write_all(policy.parent, {change.path: change.after for change in resolved.changes if change.writes})
