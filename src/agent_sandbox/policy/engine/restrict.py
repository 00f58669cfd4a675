"""A restricting layer's allows. They allow nothing by themselves: every request must match one of them."""

from dataclasses import dataclass, field

from agent_sandbox.policy.decision import Decision, Origin
from agent_sandbox.policy.engine.index import HostIndex, build_index
from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.http.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """The allows of one restricting layer; `origin` is the layer's. Without any, no request is allowed."""

    origin: Origin
    rules: tuple[Rule, ...]
    index: HostIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", build_index(self.rules))

    def verdict(self, request: Request, readings: Readings) -> Decision | None:
        """Return the matching allow's decision with the largest body limit, or None if no allow matches."""
        rules = self.index.rules_about(request.host, readings)
        within = (rule.verdict for rule in rules if rule.matches(request, readings))
        return max(within, key=lambda verdict: verdict.limit, default=None)

    def takes_connect(self, host: str, port: int) -> bool:
        """Return whether it could allow some request to this host and port."""
        return any(
            rule.conditions.ports is None or port in rule.conditions.ports for rule in self.index.rules_for(host)
        )
