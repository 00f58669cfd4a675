"""Explain a decision: the rule that decided, other matches, near misses, and what would allow the request."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.decision import Cause, Decision, Effect
from agent_sandbox.policy.engine.decide import NO_PUSH, decide, decide_with_secrets
from agent_sandbox.policy.engine.nearest import allows_nearby, unshadowed
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.body_size import shown_size
from agent_sandbox.policy.http.git_requests import push_after
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.injection import Injection
from agent_sandbox.policytools.explain.carets import carets
from agent_sandbox.policytools.explain.remedy import Choices, Offers, Remedy, no_choices, remedy
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request

MAX_MISSES = 3
# Names are compared one by one; more would take too long.
MAX_COMPARED = 10_000


class Miss(Struct, frozen=True, kw_only=True):
    """A near miss: an allow, and the parts of the request that do not match, such as `method POST` or `path /x`."""

    rule: Rule
    differs: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The kinds of parts that differ, such as `method` or `path`."""
        return tuple(text.partition(" ")[0] for text in self.differs)


class Explanation(Struct, frozen=True, kw_only=True):
    """The explained decision on a request. `matched` begins with the rule that decided, `misses` with the nearest."""

    method: str
    url: str
    decision: Decision
    matched: tuple[Rule, ...] = ()
    misses: tuple[Miss, ...] = ()
    carets: str = ""
    remedy: Remedy | None = None
    # Notes on an allowed request.
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The reason of the decision, without the nearest rule, which is in `misses`."""
        near = f": {self.decision.near_miss}" if self.decision.near_miss else ""
        return self.decision.reason.removesuffix(near)


def explain(policy: Policy, line: RequestLine, *, offers: Offers, choices: Choices = no_choices) -> Explanation:
    """Return the explanation of a request; an ambiguous one is denied, as by the proxy."""
    try:
        request = read_request(policy, line)
    except Ambiguous as doubt:
        return _doubtful(line, doubt)
    decision, secrets = decide_with_secrets(policy, request)
    push = push_after(request) if decision.reason.startswith(NO_PUSH) else None
    matched = tuple(_matching(policy, push or request, first=decision.rule))
    if decision.allowed:
        notes = tuple(_notes(policy, request, decision, secrets))
        return Explanation(method=request.method, url=request.url, decision=decision, matched=matched, notes=notes)
    misses = () if matched else _misses(policy, push or request)
    nearest = misses[0] if misses else None
    return Explanation(
        method=request.method,
        url=request.url,
        decision=decision,
        matched=matched,
        misses=misses,
        carets="" if matched or push else _carets(request, nearest),
        remedy=remedy(policy, request, decision, offers, choices),
    )


def answer(policy: Policy, line: RequestLine) -> Explanation:
    """Return only the decision, without the costly search for near misses."""
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
        yield f"the proxy injects {secrets} if `agent-sandbox secret list` shows it for {request.host}"
        if decide(policy, replace(request, secrets=False)).allowed:
            yield "without the secret, another rule allows the request unchanged"
    place = policy.host_service(request.host, request.port)
    if place:
        yield f"it leads to {place.to}:{place.port}"
    if decision.max_body is not None:
        yield f"the body can have at most {shown_size(decision.max_body)}"
    if decision.allowed:
        for one in policy.budgets(request.host, request.port, replace(request, secrets=secrets is not None)):
            yield f"it counts against the budget at {one.origin}: {one.budget}"
    if request.scheme == "https" and policy.passthrough(request.host, request.port):
        yield "TLS to this host is not inspected: all requests inside pass"


def _carets(request: Request, nearest: Miss | None) -> str:
    return carets(request, nearest.parts, nearest.rule.conditions) if nearest else carets(request, ["host"], None)


def _matching(policy: Policy, request: Request, *, first: str | None) -> list[Rule]:
    """Return every matching rule: first the one that decided, then denies before allows."""
    ways = readings(request.path)
    found = [rule for rule in policy.index.rules_about(request.host, ways) if rule.matches(request, ways)]
    return sorted(found, key=lambda rule: (str(rule.origin) != first, rule.effect is Effect.ALLOW))


def _misses(policy: Policy, request: Request) -> tuple[Miss, ...]:
    """Return the nearest allows: those with the fewest differences, and among these the most specific."""
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
    """Yield the allows of a child domain, a parent domain, or a similarly spelled name."""
    index = policy.index
    yield from allows_nearby(index, host)
    parents = [host.split(".", n)[-1] for n in range(1, host.count(".") + 1)]
    if len(index.exact) <= MAX_COMPARED:
        alike = get_close_matches(host, index.exact.keys() - {*parents}, n=1, cutoff=0.8)
        for name in alike:
            allows = (rule for rule in index.naming(name) if rule.effect is Effect.ALLOW)
            yield from unshadowed(allows, index.rules_for(name))
