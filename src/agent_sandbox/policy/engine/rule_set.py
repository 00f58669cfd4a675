"""The rules and settings of one layer, or of several combined."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.settings import Settings, SettingValues, settings_of
from agent_sandbox.policy.http.body_size import Budget
from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policy.match.host_service import HostServiceRow

ServiceLayer = str  # such as `service github`, the layer name of a service's rules


class Budgeted(NamedTuple):
    """A budget, its origin, and the key under which its use is counted, which edits elsewhere do not change.

    With `service`, it is for the requests that rules of this service allow.
    """

    key: str
    origin: Origin
    budget: Budget
    service: ServiceLayer = ""

    @property
    def whose(self) -> str:
        """What it limits, as text."""
        return f"the {self.service}" if self.service else "the sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """Rules, restrictions and settings; `lower + higher` combines two sets.

    A setting of the higher set wins. The higher set replaces the allows of the lower one for the hosts and services in
    `replaced`; denies and restrictions always stay. Adding is associative. If nothing is replaced, the order of layers
    does not matter: a deny wins in any layer.
    """

    rules: tuple[Rule, ...] = ()
    restrictions: tuple[Restriction, ...] = ()
    replaced: frozenset[HostPattern | ServiceLayer] = frozenset()
    host_services: tuple[HostServiceRow, ...] = ()
    settings: SettingValues = field(default_factory=dict)
    # The budgets of the whole sandbox and of services: those of all layers apply.
    budgets: tuple[Budgeted, ...] = ()
    # Set if a restricting layer has `inspect: true`, which then holds for every host.
    always_inspects: bool = False
    # The settings with their defaults: each request needs some.
    in_force: Settings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_force", settings_of(self.settings))

    def __add__(self, higher: "RuleSet") -> "RuleSet":
        return RuleSet(
            rules=(*higher.unreplaced(self.rules), *higher.rules),
            restrictions=self.restrictions + higher.restrictions,
            replaced=self.replaced | higher.replaced,
            host_services=self.host_services + higher.host_services,
            settings={**self.settings, **higher.settings},
            budgets=self.budgets + higher.budgets,
            always_inspects=self.always_inspects or higher.always_inspects,
        )

    def unreplaced(self, lower: tuple[Rule, ...]) -> Iterable[Rule]:
        """Return the rules of a lower layer that this set does not replace."""
        return filter(None, map(self._unreplaced, lower)) if self.replaced else lower

    def _unreplaced(self, rule: Rule) -> Rule | None:
        if rule.effect is not Effect.ALLOW:
            return rule
        if rule.origin.layer in self.replaced:
            return None
        host = self._unreplaced_host(rule.conditions.host)
        if host is None or host is rule.conditions.host:
            return rule if host else None
        return dataclasses.replace(rule, conditions=replace(rule.conditions, host=host))

    def _unreplaced_host(self, host: HostPattern) -> HostPattern | None:
        if isinstance(host, ListedHosts):
            return host.without(one for one in self.replaced if isinstance(one, HostPattern))
        if host.reach is not Reach.APEX_AND_BELOW:
            return None if self._contains(host) else host
        # `.x` is both `x` and `*.x`.
        parts = [dataclasses.replace(host, reach=reach) for reach in (Reach.EXACT, Reach.BELOW)]
        left = [part for part in parts if not self._contains(part)]
        return host if left == parts else next(iter(left), None)

    def _contains(self, host: HostPattern) -> bool:
        return any(pattern in self.replaced for pattern in host.containing())
