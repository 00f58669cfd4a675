"""`policy services resolve`: asks, and says what would be written beside the policy. Writing is a second step."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent_sandbox.detect import Offer
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policyfile.resolved import RESOLVED
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.policytools.suggest.host_warnings import careful
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.reconcile import Change, OnConflict, Verdict
from agent_sandbox.render.registries import path_of, resolved_service
from agent_sandbox.runtime.host.files import read_text, write_all
from agent_sandbox.runtime.policies.registries import USUAL, Machine, Named, registries

# Says whether a host that only the project's files name is taken in: its service, and the host.
Take = Callable[[str, Offer], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What becomes of each service's file, its hosts, what the project names and nobody took, and what failed."""

    changes: tuple[Change, ...]
    offers: Mapping[str, tuple[Offer, ...]]
    nothing: tuple[Problem, ...]
    left: Mapping[str, tuple[Offer, ...]]

    @property
    def kept(self) -> tuple[Change, ...]:
        """The files on which a person has to decide."""
        return tuple(change for change in self.changes if change.verdict is Verdict.KEPT)


def resolve(  # noqa: PLR0913 - each is an option
    name: str | None, policy: Path, machine: Machine, *, take: Take, source: Path | None = None, force: bool = False
) -> Resolved:
    """Return what would be written for one service, or for each for which something is found; only reads."""
    found, nothing = _found(name, policy, machine, source)
    taken = {one: frozenset(offer.host for offer in named.asked if take(one, offer)) for one, named in found.items()}
    offers = {one: named.offers(taken[one]) for one, named in found.items()}
    on_conflict = OnConflict.REPLACE if force else OnConflict.KEEP
    date = datetime.now(UTC).date().isoformat()
    return Resolved(
        changes=tuple(
            resolved_service(
                one, chosen, date=date, before=read_text(*_from_root(policy, path_of(one))), on_conflict=on_conflict
            )
            for one, chosen in offers.items()
            if chosen
        ),
        offers={one: chosen for one, chosen in offers.items() if chosen},
        nothing=nothing,
        left={
            one: tuple(offer for offer in named.asked if offer.host not in taken[one]) for one, named in found.items()
        },
    )


def _found(
    name: str | None, policy: Path, machine: Machine, source: Path | None
) -> tuple[dict[str, Named], tuple[Problem, ...]]:
    if name is not None and name not in RESOLVED:
        hint = f"known are {', '.join(RESOLVED)}: all others ship with agent-sandbox"
        raise UserError([Problem(where=name, what="is no service that is resolved", hint=hint)])
    found: dict[str, Named] = {}
    nothing: list[Problem] = []
    more = [source] if source else []
    for one in [name] if name else RESOLVED:
        try:
            found[one] = registries(one, policy.parent.parent, machine, more=more)
        except UserError as error:
            nothing += error.problems
    if not found:
        raise UserError(nothing)
    return found, tuple(nothing)


def warnings(offer: Offer) -> Iterator[str]:
    """Yield what a person should know before such a host is taken in."""
    alone = read_short_rule(Effect.ALLOW, (f"POST https://{offer.host}/**",)).alone
    yield from careful("http" if "http" in offer.schemes else "https", offer.host, alone)
    for port in offer.ports:
        if port not in USUAL.values():
            yield f"port {port} is not where the web is: look at what listens there"


def write(policy: Path, resolved: Resolved) -> None:
    """Write what changes beside the policy: all of it or nothing."""
    texts = {_from_root(policy, change.path)[1]: change.after for change in resolved.changes if change.writes}
    # The proxy reads them as another user.
    write_all(policy.parent.parent, texts, shared=texts)


def _from_root(policy: Path, path: str) -> tuple[Path, str]:
    """Return the project and a path in it: below its root no link is followed, and `.devcontainer` may be a clone's."""
    return policy.parent.parent, f"{policy.parent.name}/{path}"
