"""Which of the services that could be named would allow a request."""

from collections.abc import Mapping

from agent_sandbox.policy.decide import decide
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.request import Request

TOLD = 3


def fitting(request: Request, offers: Mapping[str, Policy], policy: Policy) -> tuple[str, ...]:
    """Return the services that allow the request, at most a few, those that allow the least first.

    One that `policy` names already is none of them: whoever has narrowed it by options would widen it again.
    """
    known = [name for name, offer in offers.items() if offer.index.rules_for(request.host)]
    allowing = [name for name in known if decide(offers[name], request).allowed]
    named = {rule.origin.layer.removeprefix("service ") for rule in policy.rules.rules} if allowing else ()
    return tuple(
        sorted((name for name in allowing if name not in named), key=lambda name: len(offers[name].rules.rules))[:TOLD]
    )
