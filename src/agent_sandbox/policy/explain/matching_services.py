"""Find the services that would allow a denied request."""

from collections.abc import Mapping

from agent_sandbox.policy.engine.decide import allows
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.http.request import Request

MAX_SERVICES = 3


def matching_services(request: Request, offers: Mapping[str, Policy], policy: Policy) -> tuple[str, ...]:
    """Return a few services that allow the request, those with the fewest rules first.

    Services that `policy` already names are left out: the user may have narrowed them with options.
    """
    beside = [name for name in offers if f"service {name}" not in policy.layers]
    allowing = [name for name in beside if allows(offers[name], request)]
    return tuple(sorted(allowing, key=lambda name: len(offers[name].rules.rules))[:MAX_SERVICES])
