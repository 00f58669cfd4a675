"""`policy services resolve`: find registries and plan the service files. Writing is a second step."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from agent_sandbox.detect import Offer
from agent_sandbox.features.policy.registries import Machine, Named, NoRegistryError, registries
from agent_sandbox.host.files import read_text, write_all
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.http.request import USUAL_PORTS
from agent_sandbox.policyfile.resolved import MIRRORED, RESOLVED, TOOLS
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.policytools.suggest.host_warnings import careful
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.render.reconcile import Change, OnConflict, Verdict
from agent_sandbox.project.render.registries import path_of, resolved_service

# Decides whether to include a host that only the project's files name; arguments: service, host.
Take = Callable[[str, Offer], bool]


class Resolved(Struct, frozen=True, kw_only=True):
    """The plan: changed files, their hosts, the project's hosts that were left out, and failures."""

    changes: tuple[Change, ...]
    offers: Mapping[str, tuple[Offer, ...]]
    nothing: tuple[Problem, ...]
    left: Mapping[str, tuple[Offer, ...]]

    @property
    def kept(self) -> tuple[Change, ...]:
        """The files about which the user has to decide."""
        return tuple(change for change in self.changes if change.verdict is Verdict.KEPT)


def resolve(  # noqa: PLR0913 - each is an option
    name: str | None, policy: Path, machine: Machine, *, take: Take, source: Path | None = None, force: bool = False
) -> Resolved:
    """Return the plan for one service, or for all services with a registry, without writing."""
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
    if name is not None and name not in TOOLS:
        hint = f"one of: {', '.join((*RESOLVED, *MIRRORED))}; all other services ship with agent-sandbox"
        raise UserError([Problem(where=name, what="not a resolved service", hint=hint)])
    found: dict[str, Named] = {}
    nothing: list[Problem] = []
    more = [source] if source else []
    for one in [name] if name else RESOLVED:
        try:
            found[one] = registries(one, policy.parent.parent, machine, more=more)
        except NoRegistryError as error:
            nothing += error.problems
    if not found:
        raise NoRegistryError(nothing)
    return found, tuple(nothing)


def warnings(offer: Offer) -> Iterator[str]:
    """Yield warnings about including a host."""
    alone = read_short_rule(Effect.ALLOW, (f"POST https://{offer.host}/**",)).alone
    yield from careful("http" if "http" in offer.schemes else "https", offer.host, alone)
    for port in offer.ports:
        if port not in USUAL_PORTS:
            yield f"port {port} is not a usual web port: check what listens there"


def write(policy: Path, resolved: Resolved) -> None:
    """Write all changed service files or none."""
    texts = {_from_root(policy, change.path)[1]: change.after for change in resolved.changes if change.writes}
    # The proxy reads them as another user.
    write_all(policy.parent.parent, texts, shared=texts)


def _from_root(policy: Path, path: str) -> tuple[Path, str]:
    """Return the project and a path in it; no link is followed below its root, because a clone may contain one."""
    return policy.parent.parent, f"{policy.parent.name}/{path}"
