"""A rule: conditions on a request, and the effect if all of them match."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, override

from msgspec import Struct

from agent_sandbox.policy.decision import Decision, Effect, Origin
from agent_sandbox.policy.http.body_size import Budget, shown_size
from agent_sandbox.policy.http.graphql_operation import OperationPattern
from agent_sandbox.policy.http.headers import HeaderPattern, Sent
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.path import served_as
from agent_sandbox.policy.http.query import QueryPattern, without_values
from agent_sandbox.policy.http.request import DEFAULT_PORTS, USUAL_PORTS, Request
from agent_sandbox.policy.match.host_pattern import HostPattern
from agent_sandbox.policy.match.injection import Injection
from agent_sandbox.policy.match.path_pattern import PathPattern

if TYPE_CHECKING:
    from agent_sandbox.policy.match.mcp_pattern import McpPattern  # few policies have one

Readings = tuple[str, ...]


class Conditions(Struct, frozen=True, kw_only=True):
    """The conditions of a rule; None means no condition."""

    host: HostPattern
    ports: frozenset[int] | None = None
    schemes: frozenset[str] | None = None
    methods: frozenset[str] | None = None
    path: PathPattern | None = None
    query: QueryPattern | None = None
    headers: HeaderPattern | None = None
    max_body: int | None = None
    graphql: OperationPattern | None = None
    mcp: "McpPattern | None" = None
    # What is injected. A request that nothing can be injected into does not match.
    inject: Injection | None = None
    encoded_slash: bool = False
    inspect: bool | None = None
    # Not a condition: it limits how much may pass, and does not change what matches.
    budget: Budget | None = None
    # Not a condition either: what matches waits for a person.
    ask: bool = False

    @property
    def plain(self) -> bool:
        """Whether the rule has only host, port and method, the usual case, and does not ask."""
        bodies = (self.max_body, self.graphql, self.mcp)
        more = (self.schemes, self.path, self.query, self.headers, *bodies, self.inject)
        return not self.ask and more.count(None) == len(more)

    @property
    def of_the_host_alone(self) -> bool:
        """Whether only host and port are set."""
        return self.methods is None and self.of_any_request

    @property
    def of_any_request(self) -> bool:
        """Whether every usual request to host and port matches, as for an entry without rules."""
        return self.methods in {None, STANDARD} and self.plain

    def takes_port(self, port: int) -> bool:
        """Return whether this port matches."""
        return self.ports is None or port in self.ports

    def takes_size(self, size: int | None) -> bool:
        """Return whether a body of this size matches. One of unknown size does; the proxy stops it at the limit."""
        return self.max_body is None or size is None or size <= self.max_body


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Conditions with their effect and their origin."""

    effect: Effect
    conditions: Conditions
    origin: Origin
    reason: str = ""
    # The decision when this rule decides: always the same, so it is built once.
    verdict: Decision = field(init=False, repr=False, compare=False)
    # Copies of conditions that every decision reads: with many hosts, one more indirection costs more than the test.
    ports: frozenset[int] | None = field(init=False, repr=False, compare=False)
    methods: frozenset[str] | None = field(init=False, repr=False, compare=False)
    plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", verdict_of(self.effect, self.origin, self.reason, self.conditions))
        object.__setattr__(self, "ports", self.conditions.ports)
        object.__setattr__(self, "methods", self.conditions.methods)
        object.__setattr__(self, "plain", self.conditions.plain)

    def about(self, readings: Readings) -> tuple["Rule", ...]:  # noqa: ARG002 - used by tables of many rules
        """Return the rule itself, as `Rules` with only this rule would."""
        return (self,)

    def matches(self, request: Request, readings: Readings) -> bool:
        """Return whether the rule matches this request, whose host already matches.

        An allow must match every reading of the path, a deny any one: ambiguity never allows more.
        """
        if self.ports is not None and request.port not in self.ports:
            return False
        if self.methods is not None and request.method not in self.methods:
            return False
        if self.plain:
            return True
        asked = self.conditions
        return (
            (asked.schemes is None or request.scheme in asked.schemes)
            and (asked.path is None or self._path_matches(asked.path, readings))
            and (asked.query is None or self._query_matches(asked.query, request.query))
            and (asked.headers is None or self._headers_match(asked.headers, request.headers))
            and (asked.max_body is None or asked.takes_size(request.body_size))
            and (asked.graphql is None or asked.graphql.takes(request.operation))
            and (asked.mcp is None or asked.mcp.takes(request.message))
            and (asked.inject is None or request.secrets)
        )

    def _path_matches(self, pattern: PathPattern, readings: Readings) -> bool:
        if self.effect is Effect.DENY:
            served = map(pattern.matches_served if pattern.broad else pattern.matches, served_as(readings))
            return any(served) or (not pattern.broad and any(map(pattern.matches, readings)))
        return pattern.matches(readings[0]) if len(readings) == 1 else all(map(pattern.matches, readings))

    def _query_matches(self, pattern: QueryPattern, query: str) -> bool:
        return pattern.is_all_of(query) if self.effect is Effect.ALLOW else pattern.is_within(query)

    def _headers_match(self, pattern: HeaderPattern, headers: Sent) -> bool:
        return pattern.is_all_of(headers) if self.effect is Effect.ALLOW else pattern.is_within(headers)

    def differences(self, request: Request, readings: Readings) -> Iterator[str]:
        """Yield each part of the request that does not match, as text for a denial, without values of queries."""
        asked = self.conditions
        if asked.ports is not None and request.port not in asked.ports:
            yield f"port {request.port}"
        if asked.schemes is not None and request.scheme not in asked.schemes:
            yield f"scheme {request.scheme}"
        if asked.methods is not None and request.method not in asked.methods:
            yield f"method {request.method}"
        if asked.path is not None and not self._path_matches(asked.path, readings):
            yield f"path {request.path}"
        if asked.query is not None and not self._query_matches(asked.query, request.query):
            yield f"query {without_values(request.query) if request.query else '(none)'}"
        if asked.headers is not None and not self._headers_match(asked.headers, request.headers):
            yield from asked.headers.differences(request.headers)
        yield from self._body_differences(request)
        if asked.inject is not None and not request.secrets:
            yield f"a request without {asked.inject.secrets}"

    def _body_differences(self, request: Request) -> Iterator[str]:
        asked = self.conditions
        if not asked.takes_size(request.body_size):
            yield f"a body of {shown_size(request.body_size or 0)}"
        if asked.graphql is not None and not asked.graphql.takes(request.operation):
            yield from asked.graphql.differences(request.operation)
        if asked.mcp is not None and not asked.mcp.takes(request.message):
            yield from asked.mcp.differences(request.message)

    @override
    def __str__(self) -> str:
        return " ".join(part for part in (describe(self.conditions) for describe in PARTS) if part)

    @property
    def sort_key(self) -> tuple[tuple[int, int], str, int, str]:
        """Most specific first, then as written, so that the order of loading does not matter."""
        path = self.conditions.path
        exact, length = path.specificity if path else (0, 0)
        return ((-exact, -length), self.origin.file, self.origin.line, str(self))


def verdict_of(effect: Effect, origin: Origin, reason: str, conditions: Conditions) -> Decision:
    """Return the decision of a rule with these values."""
    where, verb = str(origin), "allowed" if effect is Effect.ALLOW else "denied"
    said = f"{verb} by {where}{': ' if reason else ''}{reason}"
    return Decision(effect=effect, rule=where, origin=origin, reason=said, max_body=conditions.max_body)


def _methods(asked: Conditions) -> str:
    return "any method" if asked.methods in {None, STANDARD} else ", ".join(sorted(asked.methods or ()))


def _url(asked: Conditions) -> str:
    schemes = f"{'|'.join(sorted(asked.schemes))}://" if asked.schemes else ""
    return f"{schemes}{asked.host}{asked.path or ''}{'?' if asked.query else ''}{asked.query or ''}"


def _ports(asked: Conditions) -> str:
    of_schemes = frozenset(DEFAULT_PORTS[scheme] for scheme in asked.schemes or ())
    if asked.ports in {None, USUAL_PORTS, of_schemes}:
        return ""
    return f"on port {', '.join(map(str, sorted(asked.ports or ())))}"


def _headers(asked: Conditions) -> str:
    return f"with {asked.headers}" if asked.headers else ""


def _size(asked: Conditions) -> str:
    return "" if asked.max_body is None else f"up to {shown_size(asked.max_body)}"


def _operations(asked: Conditions) -> str:
    return f"with GraphQL {asked.graphql}" if asked.graphql else ""


def _messages(asked: Conditions) -> str:
    return f"with MCP {asked.mcp}" if asked.mcp else ""


def _secrets(asked: Conditions) -> str:
    return f"with {asked.inject}" if asked.inject else ""


def _budget(asked: Conditions) -> str:
    return f"with a budget of {asked.budget}" if asked.budget else ""


def _ask(asked: Conditions) -> str:
    return "if a person allows it" if asked.ask else ""


PARTS: tuple[Callable[[Conditions], str], ...] = (
    _methods,
    _url,
    _ports,
    _headers,
    _size,
    _operations,
    _messages,
    _secrets,
    _budget,
    _ask,
)
