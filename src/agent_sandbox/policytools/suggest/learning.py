"""Turn recorded requests into entries of a policy: services for package managers, else the narrowest rules.

The agent chose what was recorded, so a person chooses among the entries. Requests that may carry data out are left out,
and `replay` reports each of them that the entries would allow.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.decision import Decision
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.public_suffix import is_public_suffix
from agent_sandbox.policyfile.resolved import RESOLVED
from agent_sandbox.policyfile.sources import is_source
from agent_sandbox.policytools.suggest.denials import Denials, Seen
from agent_sandbox.policytools.suggest.suggesting import Proposal, suggest

# No ID, hash or file name is longer: a longer segment could carry data out.
LONGEST_SEGMENT = 128
TOO_LONG = f"a path segment has more than {LONGEST_SEGMENT} characters, which can carry data out"
FEW = 5  # hosts below one domain, beyond which their names can carry data out


class Entry(Struct, frozen=True, kw_only=True):
    """One entry to choose: the service, or if that is empty, the rule of the single proposal."""

    service: str
    proposals: tuple[Proposal, ...]
    seen: Seen
    warnings: tuple[str, ...]

    @property
    def text(self) -> str:
        """The entry as written in the policy."""
        return self.service or self.proposals[0].rule.text

    @property
    def section(self) -> str:
        """The section of the policy that the entry belongs to."""
        return "services" if self.service else self.proposals[0].rule.section

    @property
    def is_resolved(self) -> bool:
        """Whether the service is written from the configuration of this machine, and so cannot be tried before."""
        return self.service in RESOLVED


class Learned(Struct, frozen=True, kw_only=True):
    """The entries to choose from, services first, then the most frequent; and what is left out, by reason."""

    entries: tuple[Entry, ...]
    left_out: Mapping[str, Seen]
    traffic: Denials


def learn(traffic: Denials, policy: Policy, offers: Mapping[str, Policy]) -> Learned:
    """Return entries that would have allowed what was denied without a matching rule."""
    # The log has no queries, so two requests may look the same: one that a deny has stopped once is never learned.
    odd = {request: traffic.refused.get(request) or _why_odd(request) for request in traffic.requests}
    kept = replace(
        traffic,
        requests={request: seen for request, seen in traffic.requests.items() if not odd[request]},
        refused=traffic.refused | {request: why for request, why in odd.items() if why},
        others={why: replace(seen) for why, seen in traffic.others.items()},
    )
    for request, why in odd.items():
        if why:
            kept.leave_out(why, traffic.requests[request])
    found = suggest(kept, policy, offers, shapes=True)
    kept.refused = found.refused
    crowded = _crowded(found.proposals)
    entries = sorted(
        (_with_crowd(entry, crowded) for entry in _entries(found.proposals)),
        key=lambda entry: (not entry.service, -entry.seen.count, entry.text),
    )
    return Learned(entries=tuple(entries), left_out=found.left_out, traffic=kept)


def _why_odd(request: Request) -> str:
    """Return why nothing is learned from a request, or an empty string."""
    return TOO_LONG if any(len(segment) > LONGEST_SEGMENT for segment in request.path.split("/")) else ""


def _entries(proposals: Sequence[Proposal]) -> Iterator[Entry]:
    """Yield one entry for each service that stands for proposals, and one for each other proposal."""
    often = Counter(name for proposal in proposals for name in set(_services(proposal)))
    by_service: defaultdict[str, list[Proposal]] = defaultdict(list)
    for proposal in proposals:
        if names := _services(proposal):
            by_service[max(names, key=lambda name: often[name])].append(proposal)
        else:
            yield Entry(service="", proposals=(proposal,), seen=proposal.seen, warnings=proposal.warnings)
    for service, group in by_service.items():
        seen = Seen()
        for proposal in group:
            seen.add(proposal.seen)
        yield Entry(service=service, proposals=tuple(group), seen=seen, warnings=())


def _services(proposal: Proposal) -> tuple[str, ...]:
    """Return the package managers' services and the git servers that would allow a proposal's requests."""
    if proposal.package_manager:
        return (proposal.package_manager.service,)
    return tuple(filter(is_source, proposal.services))


def _crowded(proposals: Iterable[Proposal]) -> frozenset[str]:
    """Return the domains below which many hosts are proposed."""
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for proposal in proposals:
        if not _services(proposal):
            host = proposal.rule.request.host
            hosts[_domain(host)].add(host)
    return frozenset(domain for domain, names in hosts.items() if len(names) > FEW)


def _with_crowd(entry: Entry, crowded: frozenset[str]) -> Entry:
    domain = "" if entry.service else _domain(entry.proposals[0].rule.request.host)
    if domain not in crowded:
        return entry
    warning = f"more than {FEW} hosts below {domain} were requested: their names can carry data out"
    return replace(entry, warnings=(*entry.warnings, warning))


def _domain(host: str) -> str:
    """Return the registered domain of a name."""
    labels = host.split(".")
    ends = (".".join(labels[start:]) for start in range(len(labels) - 1, -1, -1))
    return next((name for name in ends if not is_public_suffix(name)), host)


class Replay(Struct, frozen=True, kw_only=True):
    """What a policy decides about the recorded requests.

    `passed` counts those that were allowed or that could be learned, of `all` that were tried; `failing` has the denied
    ones with the reason, and `leaking` those that were left out and would pass.
    """

    passed: int = 0
    all: int = 0
    failing: Mapping[Request, str] = {}
    leaking: tuple[Request, ...] = ()


def replay(learned: Learned, policy: Policy, *, untried: Collection[Request] = ()) -> Replay:
    """Decide the recorded requests again, except `untried`; the log has no queries, bodies and headers."""
    traffic = learned.traffic
    wanted = Counter[Request]()
    for recorded in (traffic.allowed, traffic.requests):
        wanted.update({request: seen.count for request, seen in recorded.items() if request not in traffic.refused})
    for request in untried:
        del wanted[request]
    decisions = {request: _decision(policy, request) for request in wanted}
    failing = {request: decision.reason for request, decision in decisions.items() if not decision.allowed}
    # A host whose name leads to a private address is never connected to.
    there = (request for request in traffic.refused if request.host not in traffic.closed)
    return Replay(
        passed=sum(count for request, count in wanted.items() if request not in failing),
        all=wanted.total(),
        failing=failing,
        leaking=tuple(request for request in there if _decision(policy, request).allowed),
    )


def _decision(policy: Policy, request: Request) -> Decision:
    return decide(policy, replace(request, secrets=True))
