"""Plan the automatic resolution of services that a policy names. Writing the files is a separate step.

Only this machine's configuration counts. A host that only the project's files name needs the user:
`agent-sandbox policy services resolve`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from agent_sandbox.detect import Offer
from agent_sandbox.features.policy.registries import Machine, NoRegistryError
from agent_sandbox.features.policy.resolving import Resolved, resolve
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policyfile.catalogue import shipped_services
from agent_sandbox.policyfile.resolved import COMMAND, MIRRORS, RESOLVED, TOOLS

NOTHING = "{} allows nothing yet: no configuration of {} on this machine{} names a registry: {} {} --from FILE"
UP_ASKS = " (agent-sandbox up also looks in the image)"
AND_IMAGE = " or in the image"
LEFT = "{} also names {}, which {} on this machine does not: to include it, {} {}"


class Found(Struct, frozen=True, kw_only=True):
    """The plans, one per service, and the services for which no registry was found."""

    plans: tuple[Resolved, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each registry."""
        found = (item for plan in self.plans for item in plan.offers.items())
        return tuple(line for name, offers in found for line in _lines(name, offers))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was kept and what was left out."""
        return tuple(note for plan in self.plans for note in _notes(plan))


def find(policy: Path, names: Sequence[str], machine: Machine) -> Found:
    """Return the plan to resolve these services from this machine's configuration; a file that was edited is kept."""
    plans: list[Resolved] = []
    unknown: list[str] = []
    for name in names:
        try:
            plan = resolve(name, policy, machine, take=lambda *_: False)
        except NoRegistryError:
            unknown += [] if name in MIRRORS else [name]
            continue
        if name in MIRRORS and _is_shipped(name, plan):
            continue
        plans.append(plan)
        unknown += [] if name in plan.offers else [name]
    return Found(plans=tuple(plans), unknown=tuple(unknown))


def _is_shipped(name: str, plan: Resolved) -> bool:
    """Return whether the shipped service allows all these hosts: then the tool is not configured for a mirror."""
    shipped = {str(entry.host) for entry in shipped_services()[MIRRORS[name]].spec.domains}
    return shipped.issuperset(offer.host for offer in plan.offers.get(name, ()))


def without_answer(name: str, *, image: bool) -> str:
    """Return the note about a service for which no registry was found; `image` says whether the image was asked."""
    return NOTHING.format(name, RESOLVED[name], AND_IMAGE if image else UP_ASKS, COMMAND, name)


def together(first: Found, more: Found) -> Found:
    """Return both results, with the services that only the second could not resolve either."""
    return Found(plans=(*first.plans, *more.plans), unknown=more.unknown)


def _lines(name: str, offers: Sequence[Offer]) -> Iterator[str]:
    for offer in offers:
        yield f"{name} is {', '.join(addresses(offer))}, named by {', '.join(offer.files)}"


def addresses(offer: Offer) -> Iterator[str]:
    """Yield the scheme, host and unusual ports of a registry."""
    for scheme in offer.schemes:
        ports = [port for port in offer.ports if port not in DEFAULT_PORTS.values()]
        yield from (f"{scheme}://{offer.host}:{port}" for port in ports)
        if not ports or DEFAULT_PORTS[scheme] in offer.ports:
            yield f"{scheme}://{offer.host}"


def _notes(plan: Resolved) -> Iterator[str]:
    for change in plan.kept:
        yield f"{change.path}: {change.why}, so it was kept"
    for name, offers in plan.left.items():
        for offer in offers:
            yield LEFT.format(", ".join(offer.files), offer.host, TOOLS[name], COMMAND, name)
