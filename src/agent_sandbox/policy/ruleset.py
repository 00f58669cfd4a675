"""What one layer says, or several together."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from agent_sandbox.policy.ceiling import Ceiling
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.hostlist import ListedHosts
from agent_sandbox.policy.hostpattern import HostPattern
from agent_sandbox.policy.hostservice import HostServiceRow
from agent_sandbox.policy.rule import Rule
from agent_sandbox.policy.settings import Said

ServiceLayer = str  # `service github`: the layer that a service's rules come from


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """Rules, ceilings and settings; `lower + higher` is both.

    A setting of the higher one stands, and what it replaces are the lower one's allows of these hosts and services;
    denies and ceilings stay, whoever wrote them. Adding is associative, and where nothing is replaced the order of
    layers never matters: a deny wins wherever it comes from.
    """

    rules: tuple[Rule, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    replaced: frozenset[HostPattern | ServiceLayer] = frozenset()
    host_services: tuple[HostServiceRow, ...] = ()
    settings: Said = field(default_factory=dict)
    # A layer that may only narrow has said `inspect: true`: for every host, whatever is said elsewhere.
    always_inspects: bool = False

    def __add__(self, higher: "RuleSet") -> "RuleSet":
        return RuleSet(
            rules=(*higher.left_of(self.rules), *higher.rules),
            ceilings=self.ceilings + higher.ceilings,
            replaced=self.replaced | higher.replaced,
            host_services=self.host_services + higher.host_services,
            settings={**self.settings, **higher.settings},
            always_inspects=self.always_inspects or higher.always_inspects,
        )

    def left_of(self, lower: tuple[Rule, ...]) -> Iterable[Rule]:
        """Return what this set leaves of a lower layer's rules; a list of hosts may hold what is replaced."""
        if not self.replaced:
            return lower
        return (self._narrowed(rule) for rule in lower if not self.replaces(rule))

    def _narrowed(self, rule: Rule) -> Rule:
        host = rule.conditions.host
        if not isinstance(host, ListedHosts):
            return rule
        left = host.without(one for one in self.replaced if isinstance(one, HostPattern))
        return replace(rule, conditions=replace(rule.conditions, host=left))

    def replaces(self, rule: Rule) -> bool:
        """Tell whether a lower layer's rule is dropped beside this set."""
        return rule.effect is Effect.ALLOW and bool(self.replaced & {rule.conditions.host, rule.origin.layer})
