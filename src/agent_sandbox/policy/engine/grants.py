"""Requests that a person is asked about although a rule allows them, and grants: what a person allowed for a while.

A grant counts only for a request that no rule matches, or that a person is asked about. A deny and a restricting layer
win over a grant.

A rule with `ask: true` is an allow, and a question about what matches it, whatever else allows that. As an allow, it
matches like all allows. As a question, it matches like a deny: no spelling of a request avoids it.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from agent_sandbox.policy.decision import Decision, Effect, Origin
from agent_sandbox.policy.engine.index import HostIndex, build_index
from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.engine.settings import Settings
from agent_sandbox.policy.http.body_size import shown_size
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.request import USUAL_PORTS, Request
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policy.match.path_pattern import PathKind
from agent_sandbox.policy.match.private_hosts import why_private

READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Over HTTP/2, other requests rarely say that they have no body.
UPLOADING = frozenset({"POST", "PUT", "PATCH"})


class Asked(NamedTuple):
    """Why a person is asked about a request, and the rule with `ask: true` that requires it; None for the settings."""

    reason: str
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Allows for single public hosts, on named ports and without secrets. Anything else raises ValueError."""

    rules: tuple[Rule, ...]
    index: HostIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        unfit = next((rule for rule in self.rules if not is_grantable(rule)), None)
        if unfit is not None:
            raise ValueError(f"not a valid grant: {unfit}")
        object.__setattr__(self, "index", build_index(self.rules))

    def verdict(self, request: Request, readings: Readings) -> Decision | None:
        """Return the decision of the first grant that matches, or None."""
        return next((rule.verdict for rule in self.matching(request, readings)), None)

    def matching(self, request: Request, readings: Readings) -> list[Rule]:
        """Return the grants that match."""
        return [rule for rule in self.index.rules_about(request.host, readings) if rule.matches(request, readings)]

    def for_connect(self, host: str, port: int) -> Decision | None:
        """Return the decision of a grant for some request to this host and port, or None."""
        return next((rule.verdict for rule in self.index.rules_for(host) if rule.conditions.takes_port(port)), None)


def is_grantable(rule: Rule) -> bool:
    """Return whether a rule may be a grant."""
    asked = rule.conditions
    exact = asked.host.reach is Reach.EXACT and why_private(asked.host.name) is None
    narrow = asked.ports is not None and asked.methods is not None and asked.inspect is not False
    unread = (asked.inject, asked.graphql, asked.mcp) == (None, None, None)
    return rule.effect is Effect.ALLOW and exact and narrow and unread


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRules:
    """The questions of a policy and of the layers that restrict it."""

    rules: tuple[Rule, ...] = ()
    index: HostIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", build_index(self.rules))

    def why_asked(self, request: Request, readings: Readings, grants: Iterable[Rule] = ()) -> Asked | None:
        """Return why a person is asked about a request; None if nobody is, or a grant names exactly its path."""
        if any(grant.conditions.path and grant.conditions.path.kind is PathKind.EXACT for grant in grants):
            return None
        found = self.index.rules_about(request.host, readings)
        return next((_why(rule) for rule in found if rule.matches(request, readings)), None)

    def about(self, host: str, port: int) -> bool:
        """Return whether a person is asked about some requests to this host and port."""
        return any(rule.conditions.takes_port(port) for rule in self.index.rules_for(host))


def ask_rules(rules: RuleSet) -> AskRules:
    """Return the questions of a set of rules."""
    every = chain(rules.rules, *(restriction.rules for restriction in rules.restrictions))
    return AskRules(rules=tuple(_as_broad_as_a_deny(rule) for rule in every if rule.conditions.ask))


def _as_broad_as_a_deny(rule: Rule) -> Rule:
    asked = rule.conditions
    broad = replace(
        asked,
        ports=None if asked.ports == USUAL_PORTS else asked.ports,
        methods=None if asked.methods == STANDARD else asked.methods,
        path=asked.path.broadly() if asked.path else None,
        max_body=None,
        inject=None,
        ask=False,
    )
    return dataclasses.replace(rule, effect=Effect.DENY, conditions=broad)


def _why(rule: Rule) -> Asked:
    why = f"{rule.origin} requires a person to allow this{': ' if rule.reason else ''}{rule.reason}"
    return Asked(why, rule.origin)


def why_asked(settings: Settings, request: Request, rules: Sequence[Rule]) -> Asked | None:
    """Return why a person is asked about a request that these rules allow; None if nobody is.

    A rule that names its methods, or the size of a body, has answered that question already.
    """
    if (
        settings.asks_about("writes")
        and request.method not in READING
        and not any(rule.conditions.methods not in {None, STANDARD} for rule in rules)
    ):
        return Asked(f"`settings.ask` requires a person to allow {request.method}")
    if _is_sized(rules) or settings.ask_uploads < 0:
        return None
    unknown = request.body_size is None and request.method in UPLOADING
    if unknown or (request.body_size or 0) > settings.ask_uploads:
        return Asked(f"`settings.ask` requires a person to allow a body of {_size(request)}")
    return None


def unasked_body(settings: Settings, rules: Sequence[Rule]) -> int | None:
    """Return the largest body that nobody was asked about, for a request that does not say how large its body is."""
    return None if _is_sized(rules) or settings.ask_uploads < 0 else settings.ask_uploads


def is_for_one_request(grant: Rule) -> bool:
    """Return whether a grant is for one request alone: those that last name a path."""
    return grant.conditions.path is None


def _is_sized(rules: Sequence[Rule]) -> bool:
    asked = (rule.conditions for rule in rules)
    return any(one.max_body is not None or one.graphql is not None or one.mcp is not None for one in asked)


def _size(request: Request) -> str:
    return "unknown size" if request.body_size is None else shown_size(request.body_size)
