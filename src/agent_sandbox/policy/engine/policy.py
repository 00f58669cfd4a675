"""The compiled policy: the effective policy in the form that `decide` uses."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.dump import dump_conditions
from agent_sandbox.policy.engine.grants import AskRules, Grants, ask_rules
from agent_sandbox.policy.engine.index import HostIndex, build_index
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.rule_set import Budgeted, RuleSet
from agent_sandbox.policy.engine.settings import Settings
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.host_service import HostService, find_host_service
from agent_sandbox.policy.match.upstream import UpstreamProxy

NOBODY_ASKS = AskRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An immutable compiled policy.

    `refusal` says why the policy as a whole allows nothing. `empty` is set if the reason is that it has no allow, and
    not that it could not be loaded.
    """

    rules: RuleSet
    index: HostIndex = field(repr=False)
    digest: str
    # Whether a rule has a condition on GraphQL: only then are bodies buffered for it.
    asks_operations: bool = False
    # The same for MCP.
    asks_messages: bool = False
    # Whether some rule injects a secret.
    asks_secrets: bool = False
    # Whether a person is asked about some requests that a rule allows.
    asks_first: bool = False
    # The rules that ask about them.
    asking: AskRules = field(default=NOBODY_ASKS, repr=False)
    # Whether some entry has a budget, or the whole sandbox.
    has_budgets: bool = False
    refusal: str = ""
    empty: bool = False
    # The names of the layers and services that its rules come from.
    layers: frozenset[str] = frozenset()
    # What a person allowed for a while. Never compiled or stored: the running proxy adds it.
    granted: Grants | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, rules: RuleSet, *, refusal: str = "", empty: bool = False) -> Self:
        """Return the policy of a set of rules."""
        asking = ask_rules(rules)
        every = [*rules.rules, *chain.from_iterable(restriction.rules for restriction in rules.restrictions)]
        return cls(
            rules=rules,
            index=build_index(rules.rules),
            digest=_digest(rules),
            asks_operations=any(rule.conditions.graphql for rule in every),
            asks_messages=any(rule.conditions.mcp for rule in every),
            asks_secrets=any(rule.conditions.inject for rule in rules.rules),
            asks_first=bool(asking.rules) or rules.in_force.asks_first,
            asking=asking,
            has_budgets=bool(rules.budgets) or any(rule.conditions.budget for rule in every),
            refusal=refusal,
            empty=empty,
            layers=frozenset(rule.origin.layer for rule in rules.rules),
        )

    @classmethod
    def deny_all(cls, reason: str) -> Self:
        """Return a policy that denies every request for this reason."""
        return cls.of(RuleSet(), refusal=reason)

    def granting(self, rules: tuple[Rule, ...]) -> Self:
        """Return the policy with these grants in addition. Raises ValueError if one cannot be a grant."""
        before = self.granted.rules if self.granted else ()
        return replace(self, granted=Grants(rules=(*before, *rules))) if rules else self

    @property
    def settings(self) -> Settings:
        """The settings of the proxy."""
        return self.rules.in_force

    def takes_encoded_slash(self, host: str) -> bool:
        """Return whether paths of this host may contain `%2F`, which an entry allows with `encoded_slash: true`.

        For a host without any allow they may as well: its requests are denied anyway, and the user should first learn
        that the host is not allowed.
        """
        allows = [rule for rule in self.index.rules_for(host) if rule.effect is Effect.ALLOW]
        return not allows or any(rule.conditions.encoded_slash for rule in allows)

    def host_service(self, host: str, port: int) -> HostService | None:
        """Return the host service that this host and port lead to, or None.

        `decide` says whether the request is allowed, `is_liftable` whether the proxy may connect to its address.
        """
        return find_host_service(self.rules.host_services, host, port)

    def upstream_proxy(self, host: str) -> UpstreamProxy | None:
        """Return the upstream proxy for this host, or None for a direct connection.

        The caller must rule out host services first: they are always connected to directly.
        """
        upstream = self.settings.upstream
        return upstream.proxy_for(host) if upstream else None

    def budgets(self, host: str, port: int, request: Request | None = None) -> tuple[Budgeted, ...]:
        """Return the budgets that a request counts against, or a connection that is not inspected.

        They are those of all entries and services that allow it, and that of the sandbox: none can lift another one.
        """
        if not self.has_budgets:
            return ()
        ways = readings(request.path) if request else ()
        found, layers = {}, {""}
        for index in (self.index, *(restriction.index for restriction in self.rules.restrictions)):
            for rule in index.rules_about(host, ways) if request else index.rules_for(host):
                asked = rule.conditions
                matches = rule.matches(request, ways) if request else asked.takes_port(port)
                if matches and rule.effect is Effect.ALLOW:
                    layers.add(rule.origin.layer)
                if asked.budget and matches:
                    found[f"{rule.origin.layer} {asked.host}", asked.budget] = rule.origin
        entries = (Budgeted(key, origin, budget) for (key, budget), origin in found.items())
        return (*entries, *(one for one in self.rules.budgets if one.service in layers))

    @property
    def authorities(self) -> str:
        """The CA certificates that the proxy trusts besides the usual ones, as PEM."""
        upstream = self.settings.upstream
        return upstream.ca.pem if upstream and upstream.ca else ""

    def passthrough(self, host: str, port: int) -> bool:
        """Return whether TLS to this host passes through without inspection (`inspect: false`)."""
        if self.rules.always_inspects or self.asking.about(host, port):
            return False
        above = [restriction.index.rules_for(host) for restriction in self.rules.restrictions]
        # A person cannot be asked about passthrough, so then only an entry's `inspect: false` counts.
        inspect = self.settings.inspect or self.settings.asks_first
        return _passes_through(self.index.rules_for(host), above, port=port, inspect=inspect)


def _digest(rules: RuleSet) -> str:
    """Return a hash of what the policy does: comments, order and line numbers do not count."""
    restrictions = sorted({f"ceiling {_hashed(_lines(restriction.rules))}" for restriction in rules.restrictions})
    places = sorted({f"{row.asked} {sorted(row.ports)} leads to {row.to}" for row in rules.host_services})
    settings = rules.in_force
    asked = [f"asks about {settings.ask} for {settings.ask_timeout}"] if settings.ask else []
    asked += sorted(f"{one.key}: {one.budget}" for one in rules.budgets)
    served = [f"served by {settings.http1}"] if settings.http1 != "auto" else []
    signed = [f"signs commits with {settings.sign_commits}"] if settings.sign_commits else []
    general = f"{settings} {rules.always_inspects}"
    return _hashed([general, *restrictions, *_lines(rules.rules), *places, *asked, *served, *signed])


def _lines(rules: Iterable[Rule]) -> list[str]:
    return sorted({json.dumps([rule.effect, dump_conditions(rule.conditions)], sort_keys=True) for rule in rules})


def _hashed(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _passes_through(rules: Sequence[Rule], restrictions: Iterable[Sequence[Rule]], *, port: int, inspect: bool) -> bool:
    """Return whether TLS to this port passes through without inspection.

    `rules` are the rules of the host, `restrictions` those of each restricting layer. `inspect` is the default for
    entries that do not set it. `inspect: true` wins over `false`, and so does every deny and every allow with
    conditions: they need the requests inside.
    """
    here = [rule for rule in rules if rule.conditions.takes_port(port)]
    values = {rule.conditions.inspect for rule in here}
    wanted = False in values or (not inspect and None in values)
    whole = all(rule.effect is Effect.ALLOW and rule.conditions.of_any_request for rule in here)
    return wanted and True not in values and whole and all(_lets_pass_through(above, port) for above in restrictions)


def _lets_pass_through(restriction: Sequence[Rule], port: int) -> bool:
    here = [rule.conditions for rule in restriction if rule.conditions.takes_port(port)]
    return any(asked.of_any_request for asked in here) and not any(asked.inspect for asked in here)
