"""Suggest the narrowest rules for denied requests, for the user to choose from."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.explain.advice import ENCODED
from agent_sandbox.policy.explain.git_command import git_command
from agent_sandbox.policy.explain.matching_services import matching_services
from agent_sandbox.policy.explain.package_manager import PackageManager, package_manager_of
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request
from agent_sandbox.policyfile.package_managers import package_managers
from agent_sandbox.policyfile.sources import git_services
from agent_sandbox.policytools.edit.short_rule import ShortRule, read_short_rule
from agent_sandbox.policytools.suggest.denials import REASONS, Denials, Seen
from agent_sandbox.policytools.suggest.generalising import Pattern, exactly, generalise
from agent_sandbox.policytools.suggest.host_warnings import careful
from agent_sandbox.policytools.suggest.noise_filter import why_not_suggested
from agent_sandbox.problems import UserError

READING = frozenset({"GET", "HEAD", "OPTIONS"})
ALLOWED_NOW = "allowed by now"
NO_LINE = "the short form cannot express it"

type Group = tuple[str, str, int, str]


class Proposal(Struct, frozen=True, kw_only=True):
    """A rule, the denials that it would have allowed, and warnings to read before allowing it.

    `services` would allow the same requests; `package_manager` is the tool that seems to fetch from its registry there.
    """

    rule: ShortRule
    seen: Seen
    values: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]
    services: tuple[str, ...] = ()
    package_manager: PackageManager | None = None
    # The command that allows the `git push` or fetch that was denied.
    git_command: str = ""
    requests: tuple[Request, ...] = ()


class Suggestions(Struct, kw_only=True):
    """The proposals, most frequent first, and the counts of what is left out, by reason.

    `refused` has the requests that must stay denied, with the reason.
    """

    proposals: list[Proposal] = []
    left_out: dict[str, Seen] = {}
    refused: dict[Request, str] = {}
    unreadable: int = 0


def suggest(denials: Denials, policy: Policy, offers: Mapping[str, Policy], *, shapes: bool = False) -> Suggestions:
    """Return the narrowest rules that would have allowed the requests denied without a matching rule.

    `offers` has the policy of each service that could be named instead. With `shapes`, one hash or UUID is enough for
    a star. No star allows one of the requests that were refused for another reason.
    """
    left = Denials(others={why: replace(seen) for why, seen in denials.others.items()})
    groups: defaultdict[Group, dict[str, tuple[Request, Seen]]] = defaultdict(dict)
    refused = dict(denials.refused)
    for request, seen in denials.requests.items():
        why = _why_not(request, denials, policy)
        if why:
            left.leave_out(why, seen)
            if why != ALLOWED_NOW:
                refused[request] = why
        else:
            group = (request.scheme, request.host, request.port, _method(request, denials))
            path = request.path.translate(ENCODED)
            groups[group].setdefault(path, (request, Seen()))[1].add(seen)
    there: defaultdict[tuple[str, int], list[Request]] = defaultdict(list)
    for request in refused:
        there[request.host, request.port].append(request)
    narrow = (
        proposal
        for group, asked in groups.items()
        for proposal in _proposals(group, asked, left, _patterns(group, asked, there[group[1:3]], shapes=shapes))
    )
    found = [_with_services(proposal, requests, policy, offers) for proposal, requests in narrow]
    found.sort(key=lambda proposal: (-proposal.seen.count, proposal.rule.text))
    return Suggestions(proposals=found, left_out=left.others, refused=refused, unreadable=denials.unreadable)


def _why_not(request: Request, denials: Denials, policy: Policy) -> str:
    if request.host in denials.closed:
        return REASONS["address"]
    if not_suggested := why_not_suggested(request.host):
        return not_suggested
    if request.method not in NAMEABLE:
        return f"no rule can name the method {request.method}"
    ways = readings(request.path)
    here = policy.index.rules_about(request.host, ways)
    deny = next((rule for rule in here if rule.effect is Effect.DENY and rule.matches(request, ways)), None)
    if deny:
        return f"denied by {deny.origin} ({deny})"
    if any(restriction.verdict(request, ways) is None for restriction in policy.rules.restrictions):
        return REASONS["ceiling"]
    return ALLOWED_NOW if decide(policy, replace(request, secrets=True)).allowed else ""


def _method(request: Request, denials: Denials) -> str:
    """Return the method; HEAD counts as GET if GET was denied as well, because GET implies HEAD."""
    if request.method != "HEAD":
        return request.method
    return "GET" if replace(request, method="GET") in denials.requests else "HEAD"


def _with_services(
    proposal: Proposal, requests: Sequence[Request], policy: Policy, offers: Mapping[str, Policy]
) -> Proposal:
    first, *others = requests
    services = tuple(
        name
        for name in matching_services(first, offers, policy)
        if all(decide(offers[name], request).allowed for request in others)
    )
    by_path = package_manager_of(first, package_managers())
    package_manager = next(
        (package_manager for package_manager in package_managers() if package_manager.tool == proposal.seen.tool),
        by_path,
    )
    return replace(
        proposal,
        requests=tuple(requests),
        services=services,
        package_manager=None if services else package_manager,
        git_command="" if others else git_command(first, git_services(), policy.layers),
    )


def _patterns(
    group: Group, asked: Mapping[str, object], refused: Sequence[Request], *, shapes: bool
) -> Iterator[Pattern]:
    """Yield the patterns of a group; instead of one that would allow a refused request, its paths one by one."""
    for pattern in generalise(asked, words=group[-1] in READING, shapes=shapes):
        rule = _rule(group, pattern) if pattern.values and refused else None
        if rule and any(rule.rule.matches(request, readings(request.path)) for request in refused):
            yield from map(exactly, sorted(pattern.paths))
        else:
            yield pattern


def _proposals(
    group: Group, asked: dict[str, tuple[Request, Seen]], left: Denials, patterns: Iterable[Pattern]
) -> Iterator[tuple[Proposal, Sequence[Request]]]:
    for pattern in patterns:
        seen = Seen()
        for path in pattern.paths:
            seen.add(asked[path][1])
        rule = _rule(group, pattern)
        if rule is None or not all(rule.rule.matches(asked[path][0], readings(path)) for path in pattern.paths):
            left.leave_out(NO_LINE, seen)
            continue
        values = tuple(tuple(sorted(pattern.values[star])) for star in sorted(pattern.values))
        requests = [asked[path][0] for path in sorted(pattern.paths)]
        yield Proposal(rule=rule, seen=seen, values=values, warnings=tuple(warnings_about(rule))), requests


def _rule(group: Group, pattern: Pattern) -> ShortRule | None:
    scheme, host, port, method = group
    written = f"[{host}]" if ":" in host else host
    address = written if port == DEFAULT_PORTS[scheme] else f"{written}:{port}"
    try:
        return read_short_rule(Effect.ALLOW, (f"{method} {scheme}://{address}{pattern.text}",))
    except UserError:
        return None


def warnings_about(rule: ShortRule) -> Iterator[str]:
    """Yield what a user should know before allowing this."""
    if rule.request.method not in READING:
        yield "it writes: the agent can send data out this way"
    yield from careful(rule.request.scheme, rule.request.host, rule.alone)
