"""Which of the services that could be named would allow a request."""

from collections.abc import Mapping

from agent_sandbox.policy.engine.decide import allows
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.http.request import Request

TOLD = 3


def matching_services(request: Request, offers: Mapping[str, Policy], policy: Policy) -> tuple[str, ...]:
    """Return the services that allow the request, at most a few, those that allow the least first.

    One that `policy` names already is none of them: whoever has narrowed it by options would widen it again.
    """
    beside = [name for name in offers if f"service {name}" not in policy.layers]
    allowing = [name for name in beside if allows(offers[name], request)]
    return tuple(sorted(allowing, key=lambda name: len(offers[name].rules.rules))[:TOLD])
