"""Rules by host: one dict look-up a label, however many hosts there are."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from agent_sandbox.policy.hostpattern import Reach
from agent_sandbox.policy.rule import Rule, RulesByHost


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIndex:
    """`exact` by host, `below` by the suffix that a host must end in, `networks` for addresses: they are few."""

    exact: RulesByHost
    below: RulesByHost
    networks: tuple[Rule, ...] = ()

    def rules_for(self, host: str) -> list[Rule]:
        """Return the rules whose host pattern takes this host, the most specific first."""
        found = [*self.exact.get(host, ())]
        dot = host.find(".")
        while dot != -1:
            found += self.below.get(host[dot + 1 :], ())
            dot = host.find(".", dot + 1)
        if self.networks:
            found += (rule for rule in self.networks if rule.conditions.host.matches(host))
        return found


def build_index(rules: Iterable[Rule]) -> HostIndex:
    """Sort the rules into their hosts."""
    exact: defaultdict[str, list[Rule]] = defaultdict(list)
    below: defaultdict[str, list[Rule]] = defaultdict(list)
    networks: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: rule.sort_key):
        host = rule.conditions.host
        if host.reach is Reach.NETWORK:
            networks.append(rule)
            continue
        if host.reach is not Reach.BELOW:
            exact[host.name].append(rule)
        if host.reach is not Reach.EXACT:
            below[host.name].append(rule)
    return HostIndex(exact=_frozen(exact), below=_frozen(below), networks=tuple(networks))


def _frozen(table: dict[str, list[Rule]]) -> RulesByHost:
    return {host: tuple(rules) for host, rules in table.items()}
