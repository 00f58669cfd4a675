"""Grants: what a person allowed for a while, on top of the policy.

They count only for a request that no rule matches: a deny wins over a grant, and so does a restricting layer.
"""

from dataclasses import dataclass, field

from agent_sandbox.policy.decision import Decision, Effect
from agent_sandbox.policy.engine.index import HostIndex, build_index
from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policy.match.private_hosts import why_private


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
        rules = self.index.rules_about(request.host, readings)
        return next((rule.verdict for rule in rules if rule.matches(request, readings)), None)

    def for_connect(self, host: str, port: int) -> Decision | None:
        """Return the decision of a grant for some request to this host and port, or None."""
        return next((rule.verdict for rule in self.index.rules_for(host) if rule.conditions.takes_port(port)), None)


def is_grantable(rule: Rule) -> bool:
    """Return whether a rule may be a grant."""
    asked = rule.conditions
    exact = asked.host.reach is Reach.EXACT and why_private(asked.host.name) is None
    narrow = asked.ports is not None and asked.methods is not None and asked.inspect is not False
    return rule.effect is Effect.ALLOW and exact and narrow and asked.inject is None and asked.graphql is None
