"""What a person can allow for a request that waits: the request alone, or a rule that a policy file can also have."""

import dataclasses

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.decision import Cause, Effect, Origin
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.grants import is_grantable, why_asked
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.explain.advice import ENCODED, UNSPELLABLE
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.http.method import NAMEABLE, with_implied
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern, parse_path_pattern

# One path of a host is rarely all that is read.
READING = frozenset({"GET", "HEAD"})
EVERY_PATH = parse_path_pattern(PathKind.GLOB, "/**")
# Nobody can register such a name (RFC 6761). The sandbox's own checks request one, and expect a denial at once.
NOBODYS = ".invalid"
NOWHERE = Origin(file="grant", line=0, layer="grant")


class Offer(Struct, frozen=True, kw_only=True):
    """`once` matches this request alone; `lasting` is the rule of `text`, an entry of `allow`; "" if there is none.

    With `asked_by_rule`, the entry in a policy would change nothing: the rule with `ask: true` still asks.
    """

    once: Conditions
    lasting: Conditions | None = None
    text: str = ""
    asked_by_rule: bool = False


def offer_for(request: Request, policy: Policy) -> Offer | None:
    """Return the offer: for reading all paths of an unlisted host, else for this method and path.

    None if no grant would allow the request: it is for a private host, or a deny or a restricting layer wins. None also
    for an address that no rule names.
    """
    reads = request.method in READING
    once = Conditions(
        host=HostPattern(reach=Reach.EXACT, name=request.host),
        ports=frozenset({request.port}),
        schemes=frozenset({request.scheme}),
        methods=with_implied({"GET"}) if reads else frozenset({request.method}),
    )
    rule = Rule(effect=Effect.ALLOW, conditions=once, origin=NOWHERE)
    asked_first = decide(policy, request).cause is Cause.ASK
    if (
        request.host.endswith(NOBODYS)
        # It is not known who has the address.
        or (is_address(request.host) and not asked_first)
        or not is_grantable(rule)
        or not decide(policy.granting((rule,)), request).allowed
    ):
        return None
    path = EVERY_PATH if reads and not asked_first else _exactly(request)
    if path is None:
        return Offer(once=once)
    lasting = replace(once, path=path)
    # Large uploads are asked about one by one.
    if asked_first and why_asked(policy.settings, request, (dataclasses.replace(rule, conditions=lasting),)):
        return Offer(once=once)
    asked_by_rule = bool(policy.asking.why_asked(request, readings(request.path)))
    return Offer(once=once, lasting=lasting, text=_text(request, path, reads=reads), asked_by_rule=asked_by_rule)


def _exactly(request: Request) -> PathPattern | None:
    if request.method not in NAMEABLE or UNSPELLABLE.search(request.path):
        return None
    try:
        return parse_path_pattern(PathKind.EXACT, request.path.translate(ENCODED))
    except InvalidValue:
        return None


def _text(request: Request, path: PathPattern, *, reads: bool) -> str:
    port = "" if request.port == DEFAULT_PORTS[request.scheme] else f":{request.port}"
    return f"{'GET' if reads else request.method} {request.scheme}://{request.host}{port}{path.text}"
