"""An index of rules by host: one dictionary look-up per label, however many hosts there are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.engine.rule_table import NO_RULES, Rules, rules_of_host
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_pattern import NAMED_WHOLE, Reach


class HostIndex(Struct, frozen=True, kw_only=True):
    """Rules in three tables: `exact` by host, `below` by the suffix of a wildcard, `others` for networks and lists.

    Every name is below the empty suffix. A host with a single rule, the usual case, maps to the rule itself: with many
    hosts, fetching one more object from main memory takes longer than using it.
    """

    exact: Mapping[str, Rule | Rules]
    below: Mapping[str, Rules]
    others: tuple[Rules, ...] = ()

    def rules_for(self, host: str) -> tuple[Rule, ...]:
        """Return the rules whose host pattern matches this host, the most specific first."""
        found = self.naming(host)
        if self.below or self.others:
            for rules in self._wider(host):
                found += rules
        return found

    def rules_about(self, host: str, readings: Readings) -> tuple[Rule, ...]:
        """Return those of `rules_for` that could match such a path, and perhaps a few more."""
        found = self.exact.get(host, NO_RULES).about(readings)
        if self.below or self.others:
            for rules in self._wider(host):
                found += rules.about(readings)
        return found

    def naming(self, host: str) -> tuple[Rule, ...]:
        """Return the rules that name exactly this host."""
        found = self.exact.get(host, NO_RULES)
        return (found,) if isinstance(found, Rule) else found

    def _wider(self, host: str) -> list[Rules]:
        found = [rules for rules in self.others if rules[0].conditions.host.matches(host)]
        if not self.below:
            return found
        dot = host.find(".")
        while dot != -1:
            if below := self.below.get(host[dot + 1 :]):
                found.append(below)
            dot = host.find(".", dot + 1)
        if (every := self.below.get("")) and not is_address(host):
            found.append(every)
        return found


def build_index(rules: Iterable[Rule]) -> HostIndex:
    """Return the index of the rules."""
    exact: defaultdict[str, list[Rule]] = defaultdict(list)
    below: defaultdict[str, list[Rule]] = defaultdict(list)
    others: defaultdict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        host = rule.conditions.host
        if host.reach is Reach.EXACT:  # nearly all of them
            exact[host.name].append(rule)
        elif host.reach in NAMED_WHOLE:
            others[host.name].append(rule)
        else:
            below[host.name].append(rule)
            if host.reach is Reach.APEX_AND_BELOW:
                exact[host.name].append(rule)
    return HostIndex(
        exact={host: rules[0] if len(rules) == 1 else rules_of_host(rules) for host, rules in exact.items()},
        below={suffix: rules_of_host(rules) for suffix, rules in below.items()},
        others=tuple(rules_of_host(others[name]) for name in sorted(others)),
    )
