"""What a layer that may only narrow lets through. It allows nothing by itself: no request goes beyond it."""

from dataclasses import dataclass, field

from agent_sandbox.policy.decision import Decision, Origin
from agent_sandbox.policy.engine.index import HostIndex, build_index
from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.http.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """The allows of one layer; `origin` is the layer's. Nothing stays within one without any."""

    origin: Origin
    rules: tuple[Rule, ...]
    index: HostIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", build_index(self.rules))

    def verdict(self, request: Request, readings: Readings) -> Decision | None:
        """Return the verdict that lets the largest body follow, None for a request that does not stay within."""
        rules = self.index.rules_about(request.host, readings)
        within = (rule.verdict for rule in rules if rule.matches(request, readings))
        return max(within, key=lambda verdict: verdict.limit, default=None)

    def takes_connect(self, host: str, port: int) -> bool:
        """Tell whether some request there could stay within."""
        return any(
            rule.conditions.ports is None or port in rule.conditions.ports for rule in self.index.rules_for(host)
        )
