"""Count what each line of a policy decided, from the audit log.

A record names the line that decided, as it was then. If the policy was edited since, the line that would decide now is
counted instead.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request, parse_request

# Different requests that are looked at one by one; an agent can send any number.
MOST = 10_000


class Asked(NamedTuple):
    """A request of the log: what was decided, by which line, and what the log has of it."""

    effect: str
    rule: str
    scheme: str
    host: str
    port: int | None
    method: str
    path: str


class Line(Struct, frozen=True, kw_only=True):
    """A line of a policy, its rules, and how many requests it allowed and denied."""

    origin: Origin
    rules: Sequence[str]
    allowed: int
    denied: int


class Usage:
    """Counts requests. `lines` returns every line that has a rule, used or not."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._rules: defaultdict[str, list[Rule]] = defaultdict(list)
        for rule in policy.rules.rules:
            self._rules[str(rule.origin)].append(rule)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._known: dict[Asked, str] = {}

    def add(self, asked: Asked) -> None:
        """Count a request."""
        line = self._known.get(asked)
        if line is None:
            # Beyond the bound, the record is believed: to look at each would take too long.
            line = self._line(asked) if len(self._known) < MOST else asked.rule
            if len(self._known) < MOST:
                self._known[asked] = line
        if line in self._rules:
            self._counts[line, asked.effect] += 1

    def lines(self) -> Sequence[Line]:
        """Return all lines with rules, by file and line."""
        found = (
            Line(
                origin=rules[0].origin,
                rules=[str(rule) for rule in rules],
                allowed=self._counts[where, Effect.ALLOW],
                denied=self._counts[where, Effect.DENY],
            )
            for where, rules in self._rules.items()
        )
        return sorted(found, key=lambda line: (line.origin.file, line.origin.line))

    def _line(self, asked: Asked) -> str:
        request = _request(asked)
        if any(_could_decide(rule, asked, request) for rule in self._rules.get(asked.rule, ())):
            return asked.rule
        decision = decide(self._policy, request) if request else None
        return (decision.rule or "") if decision and decision.effect == asked.effect else ""


def _could_decide(rule: Rule, asked: Asked, request: Request | None) -> bool:
    """Return whether the rule matches what the log has of the request, which is no query, header or body."""
    conditions = rule.conditions
    if rule.effect != asked.effect or not conditions.host.matches(asked.host):
        return False
    if request is None:  # a connection that is not inspected
        return asked.port is None or conditions.takes_port(asked.port)
    seen = replace(conditions, query=None, headers=None, max_body=None, graphql=None, inject=None)
    return dataclasses.replace(rule, conditions=seen).matches(request, readings(request.path))


def _request(asked: Asked) -> Request | None:
    if asked.port is None or not asked.method:
        return None
    try:
        return parse_request(
            scheme=asked.scheme,
            host=asked.host,
            port=asked.port,
            method=asked.method,
            target=asked.path,
            encoded_slash=True,
        )
    except Ambiguous:
        return None
