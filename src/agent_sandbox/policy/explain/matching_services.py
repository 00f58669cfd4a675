"""Find the services that would allow a denied request."""

from collections import defaultdict
from collections.abc import Mapping

from agent_sandbox.policy.engine.decide import allows
from agent_sandbox.policy.engine.index import build_index
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.host_pattern import HostPattern

MAX_SERVICES = 3


class ServiceIndex:
    """Services by host. Most denied requests are for a host that no service names."""

    def __init__(self, services: Mapping[str, Policy]) -> None:
        self._services = services
        self._index = build_index(rule for policy in services.values() for rule in policy.rules.rules)
        self._names = defaultdict[HostPattern, set[str]](set)
        for name, policy in services.items():
            for rule in policy.rules.rules:
                self._names[rule.conditions.host].add(name)

    def about(self, host: str) -> Mapping[str, Policy]:
        """Return the services with rules about a host; the others allow no request to it."""
        patterns = {rule.conditions.host for rule in self._index.rules_for(host)}
        names = {name for pattern in patterns for name in self._names[pattern]}
        return {name: policy for name, policy in self._services.items() if name in names} if names else {}


def matching_services(request: Request, offers: Mapping[str, Policy], policy: Policy) -> tuple[str, ...]:
    """Return a few services that allow the request, those with the fewest rules first.

    Services that `policy` already names are left out: the user may have narrowed them with options.
    """
    beside = [name for name in offers if f"service {name}" not in policy.layers]
    allowing = [name for name in beside if allows(offers[name], request)]
    return tuple(sorted(allowing, key=lambda name: len(offers[name].rules.rules))[:MAX_SERVICES])
