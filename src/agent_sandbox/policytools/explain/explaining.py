"""Why a request is allowed or denied: what decided, what else matched, what came near, what would allow it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from agent_sandbox.policy.decision import Cause, Decision, Effect
from agent_sandbox.policy.engine.decide import decide, decide_with_secrets
from agent_sandbox.policy.engine.nearest import allows_nearby, unshadowed
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.body_size import shown_size
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.injection import Injection
from agent_sandbox.policytools.explain.carets import carets
from agent_sandbox.policytools.explain.remedy import Choices, Offers, Remedy, no_choices, remedy
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request

MAX_MISSES = 3
# Names are compared one by one: more than these are not worth the wait.
MAX_COMPARED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """An allow that came near, and what of the request it does not take: `method POST`, `path /x`."""

    rule: Rule
    differs: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The kinds of what differs: `method`, `path`."""
        return tuple(text.partition(" ")[0] for text in self.differs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer to one request. `matched` begins with the rule that decided; `misses` with the nearest."""

    method: str
    url: str
    decision: Decision
    matched: tuple[Rule, ...] = ()
    misses: tuple[Miss, ...] = ()
    carets: str = ""
    remedy: Remedy | None = None
    # What else there is to know of an allowed request.
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why, in one sentence that leaves the nearest rule to `misses`."""
        near = f": {self.decision.near_miss}" if self.decision.near_miss else ""
        return self.decision.reason.removesuffix(near)


def explain(policy: Policy, line: RequestLine, *, offers: Offers, choices: Choices = no_choices) -> Explanation:
    """Explain what becomes of a request; what can't be read in one way is denied, as the proxy does."""
    try:
        request = read_request(policy, line)
    except Ambiguous as doubt:
        return _doubtful(line, doubt)
    decision, secrets = decide_with_secrets(policy, request)
    matched = tuple(_matching(policy, request, first=decision.rule))
    if decision.allowed:
        notes = tuple(_notes(policy, request, decision, secrets))
        return Explanation(method=request.method, url=request.url, decision=decision, matched=matched, notes=notes)
    misses = () if matched else _misses(policy, request)
    nearest = misses[0] if misses else None
    return Explanation(
        method=request.method,
        url=request.url,
        decision=decision,
        matched=matched,
        misses=misses,
        carets="" if matched else _carets(request, nearest),
        remedy=remedy(policy, request, decision, offers, choices),
    )


def answer(policy: Policy, line: RequestLine) -> Explanation:
    """Return the decision alone: what it could be explained by is looked for among all rules of the host."""
    try:
        request = read_request(policy, line)
    except Ambiguous as doubt:
        return _doubtful(line, doubt)
    return Explanation(method=request.method, url=request.url, decision=decide(policy, request))


def _doubtful(line: RequestLine, doubt: Ambiguous) -> Explanation:
    denial = Decision(effect=Effect.DENY, rule=None, origin=None, reason=f"ambiguous: {doubt}", cause=Cause.REQUEST)
    return Explanation(method=line.method, url=line.url, decision=denial)


def _notes(policy: Policy, request: Request, decision: Decision, secrets: Injection | None) -> Iterator[str]:
    if secrets:
        yield f"{secrets} is put in, where `agent-sandbox secret list` has it for {request.host}"
        if decide(policy, request._replace(secrets=False)).allowed:
            yield "without it the request goes as it is: another rule lets it"
    place = policy.host_service(request.host, request.port)
    if place:
        yield f"it leads to {place.to}:{place.port}"
    if decision.max_body is not None:
        yield f"at most {shown_size(decision.max_body)} of a body may follow"
    if request.scheme == "https" and policy.passthrough(request.host, request.port):
        yield "TLS to this host is not looked into: whatever is asked inside passes"


def _carets(request: Request, nearest: Miss | None) -> str:
    return carets(request, nearest.parts, nearest.rule.conditions) if nearest else carets(request, ["host"], None)


def _matching(policy: Policy, request: Request, *, first: str | None) -> list[Rule]:
    """Return every rule that matches, the one that decided before the others, denies before allows."""
    ways = readings(request.path)
    found = [rule for rule in policy.index.rules_about(request.host, ways) if rule.matches(request, ways)]
    return sorted(found, key=lambda rule: (str(rule.origin) != first, rule.effect is Effect.ALLOW))


def _misses(policy: Policy, request: Request) -> tuple[Miss, ...]:
    """Return the nearest allows: the fewest differences, and among equals the most specific, which comes first."""
    ways = readings(request.path)
    here = policy.index.rules_for(request.host)
    allows = sorted(
        (rule for rule in here if rule.effect is Effect.ALLOW),
        key=lambda rule: len(tuple(rule.differences(request, ways))),
    )
    found = [
        Miss(rule=rule, differs=tuple(rule.differences(request, ways)))
        for rule in islice(unshadowed(allows, here), MAX_MISSES)
    ]
    found = found or [
        Miss(rule=rule, differs=(f"host {request.host}", *rule.differences(request, ways)))
        for rule in _of_hosts_nearby(policy, request.host)
    ]
    return tuple(sorted(found, key=lambda miss: len(miss.differs))[:MAX_MISSES])


def _of_hosts_nearby(policy: Policy, host: str) -> Iterator[Rule]:
    """Yield the allows of a child, a parent, or a name spelled nearly the same."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a denial pays for it

    index = policy.index
    yield from allows_nearby(index, host)
    parents = [host.split(".", n)[-1] for n in range(1, host.count(".") + 1)]
    if len(index.exact) <= MAX_COMPARED:
        alike = get_close_matches(host, index.exact.keys() - {*parents}, n=1, cutoff=0.8)
        for name in alike:
            allows = (rule for rule in index.naming(name) if rule.effect is Effect.ALLOW)
            yield from unshadowed(allows, index.rules_for(name))
