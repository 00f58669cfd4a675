"""Rules by host: one dict look-up a label, however many hosts there are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent_sandbox.policy.host import is_address
from agent_sandbox.policy.hostpattern import Reach
from agent_sandbox.policy.rule import Readings, Rule
from agent_sandbox.policy.ruletable import NO_RULES, Rules, rules_of_host


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIndex:
    """`exact` by host, `below` by the suffix that a host must end in, `networks` for addresses: they are few.

    Below the empty suffix is every name.
    """

    exact: Mapping[str, Rules]
    below: Mapping[str, Rules]
    networks: Rules = NO_RULES

    def rules_for(self, host: str) -> tuple[Rule, ...]:
        """Return the rules whose host pattern takes this host, the most specific first."""
        found: tuple[Rule, ...] = self.exact.get(host, NO_RULES)
        for rules in self._wider(host) if self.below or self.networks else ():
            found = (*found, *rules)
        return found

    def rules_about(self, host: str, readings: Readings) -> tuple[Rule, ...]:
        """Return at least those of `rules_for` that could take such a path."""
        found = self.exact.get(host, NO_RULES).about(readings)
        for rules in self._wider(host) if self.below or self.networks else ():
            found = (*found, *rules.about(readings))
        return found

    def _wider(self, host: str) -> Iterator[Rules]:
        dot = host.find(".")
        while dot != -1:
            if rules := self.below.get(host[dot + 1 :]):
                yield rules
            dot = host.find(".", dot + 1)
        if (every := self.below.get("")) and not is_address(host):
            yield every
        if self.networks:
            yield Rules(rule for rule in self.networks if rule.conditions.host.matches(host))


def build_index(rules: Iterable[Rule]) -> HostIndex:
    """Sort the rules into their hosts."""
    exact: defaultdict[str, list[Rule]] = defaultdict(list)
    below: defaultdict[str, list[Rule]] = defaultdict(list)
    networks: list[Rule] = []
    for rule in rules:
        host = rule.conditions.host
        if host.reach is Reach.NETWORK:
            networks.append(rule)
            continue
        if host.reach in {Reach.EXACT, Reach.APEX_AND_BELOW}:
            exact[host.name].append(rule)
        if host.reach is not Reach.EXACT:
            below[host.name].append(rule)
    return HostIndex(exact=_tables(exact), below=_tables(below), networks=rules_of_host(networks))


def _tables(table: dict[str, list[Rule]]) -> dict[str, Rules]:
    return {host: rules_of_host(rules) for host, rules in table.items()}
