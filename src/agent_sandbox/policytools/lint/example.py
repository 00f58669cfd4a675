"""Find an example of a request that one rule matches and others do not."""

from collections.abc import Iterator, Sequence
from itertools import product

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, Scheme
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern

# The most striking first.
METHODS = ("DELETE", "POST", "PUT", "PATCH", "GET", "OPTIONS", "HEAD")
NOWHERE = Origin(file="", line=0, layer="")


def requests_beside(wide: Conditions, narrow: Sequence[Conditions]) -> Iterator[Request]:
    """Yield requests that match `wide` and none of `narrow`, found by a few tries."""
    taking, others = _rule(wide), [_rule(one) for one in narrow if one.host.matches(wide.host.sample)]
    methods = [one for one in METHODS if one in (wide.methods or STANDARD)]
    paths = dict.fromkeys(_paths(wide, narrow))
    for path, method in product(paths, methods):
        request = _request(wide, path, method)
        ways = readings(path)
        if taking.matches(request, ways) and not any(one.matches(request, ways) for one in others):
            yield request


def _rule(asked: Conditions) -> Rule:
    return Rule(effect=Effect.ALLOW, conditions=asked, origin=NOWHERE)


def _paths(wide: Conditions, narrow: Sequence[Conditions]) -> Iterator[str]:
    if wide.path:
        yield from _of(wide.path)
        return
    for one in narrow:
        yield from _of(one.path) if one.path else ()
    yield from ("/", "/x/y")


def _of(pattern: PathPattern) -> Iterator[str]:
    text = pattern.text.replace("**", "x/y").replace("*", "x")
    yield text
    if pattern.kind is PathKind.PREFIX:
        yield f"{text.removesuffix('/')}/x"


def _request(asked: Conditions, path: str, method: str) -> Request:
    scheme: Scheme = "https" if asked.schemes is None or "https" in asked.schemes else "http"
    usual = DEFAULT_PORTS[scheme]
    return Request(
        scheme=scheme,
        host=asked.host.sample,
        port=usual if asked.takes_port(usual) else min(asked.ports or {usual}),
        method=method,
        path=path,
        query=str(asked.query or ""),
        headers=tuple(asked.headers.named if asked.headers else ()),
        secrets=True,
    )
