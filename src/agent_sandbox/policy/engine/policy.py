"""The effective policy: what all layers together say, ready to be asked."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.dump import dump_conditions
from agent_sandbox.policy.engine.index import HostIndex, build_index
from agent_sandbox.policy.engine.passthrough import goes_unopened
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.engine.settings import Settings, settings_of
from agent_sandbox.policy.match.host_service import HostService, find_host_service
from agent_sandbox.policy.match.upstream import UpstreamProxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Immutable and compiled; `decide` asks it.

    `refusal` is set when the policy as a whole can allow nothing, and says why; `empty` when that is because it has no
    allow, and not because it could not be read.
    """

    rules: RuleSet
    index: HostIndex = field(repr=False)
    digest: str
    # Whether some rule asks what a body does: only then is one ever held.
    asks_operations: bool = False
    # Whether some rule puts a secret in.
    asks_secrets: bool = False
    refusal: str = ""
    empty: bool = False
    # Where its rules come from: a name for each layer and service.
    layers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rules: RuleSet, *, refusal: str = "", empty: bool = False) -> Self:
        """Compile a set of rules."""
        every = chain(rules.rules, *(ceiling.rules for ceiling in rules.ceilings))
        return cls(
            rules=rules,
            index=build_index(rules.rules),
            digest=_digest(rules),
            asks_operations=any(rule.conditions.graphql for rule in every),
            asks_secrets=any(rule.conditions.inject for rule in rules.rules),
            refusal=refusal,
            empty=empty,
            layers=frozenset(rule.origin.layer for rule in rules.rules),
        )

    @classmethod
    def deny_all(cls, reason: str) -> Self:
        """Return the policy that answers everything with a denial for this reason."""
        return cls.of(RuleSet(), refusal=reason)

    @property
    def settings(self) -> Settings:
        """How the proxy is to behave."""
        return settings_of(self.rules.settings)

    def takes_encoded_slash(self, host: str) -> bool:
        """Tell whether `%2F` may stand in paths of this host, as an entry with `encoded_slash: true` says.

        Where nothing is allowed it may stand as well: how it is read changes nothing, and that the host is not
        allowed is what a person has to know first.
        """
        allows = [rule for rule in self.index.rules_for(host) if rule.effect is Effect.ALLOW]
        return not allows or any(rule.conditions.encoded_slash for rule in allows)

    def host_service(self, host: str, port: int) -> HostService | None:
        """Return the private place that this host and port lead to, if `host_services` names one.

        Whether the request may go there is for `decide`; whether its address may be dialled, for `is_liftable`.
        """
        return find_host_service(self.rules.host_services, host, port)

    def upstream_proxy(self, host: str) -> UpstreamProxy | None:
        """Return the company's proxy that this host is reached through; None where it is dialled directly.

        Private places of `host_services` are for the caller to know: none of them is reached through it.
        """
        upstream = self.settings.upstream
        return upstream.leads(host) if upstream else None

    @property
    def authorities(self) -> str:
        """The certificates that servers may be signed by, besides the usual ones; as PEM."""
        upstream = self.settings.upstream
        return upstream.ca.pem if upstream and upstream.ca else ""

    def passthrough(self, host: str, port: int) -> bool:
        """Tell whether TLS to this host goes through unopened, as `inspect: false` says."""
        if self.rules.always_inspects:
            return False
        above = [ceiling.index.rules_for(host) for ceiling in self.rules.ceilings]
        return goes_unopened(self.index.rules_for(host), above, port=port, inspect=self.settings.inspect)


def _digest(rules: RuleSet) -> str:
    """Hash what the policy does, not how it is written: comments, order and lines do not count."""
    ceilings = sorted({f"ceiling {_hashed(_lines(ceiling.rules))}" for ceiling in rules.ceilings})
    places = sorted({f"{row.asked} {sorted(row.ports)} leads to {row.to}" for row in rules.host_services})
    return _hashed([f"{settings_of(rules.settings)} {rules.always_inspects}", *ceilings, *_lines(rules.rules), *places])


def _lines(rules: Iterable[Rule]) -> list[str]:
    return sorted({json.dumps([rule.effect, dump_conditions(rule.conditions)], sort_keys=True) for rule in rules})


def _hashed(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
