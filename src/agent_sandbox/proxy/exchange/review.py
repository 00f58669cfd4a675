"""Decide requests in progress, and the connections they came over, again when a new policy is in force."""

from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tunnel import Carries, Tunnel


def revoke(exchange: Exchange, revision: PolicyTransition) -> Denial | None:
    """Record and return a denial if the request was allowed and the new policy denies it."""
    request = exchange.request
    if request is None or exchange.aborted is not None:
        return None
    decision = revision.granting(exchange.grants).decide(request)
    if decision.allowed:
        exchange.sent.limit = decision.max_body
        exchange.spend = exchange.spender(revision.new.budgets(request.host, request.port, request))
        exchange.received.spend = exchange.spend
        return None
    reason = f"the policy was reloaded: {decision.reason}"
    denial = exchange.denial(reason, status=revision.new.settings.block_status)
    # Record it now: a request that still waits for its upstream connection must not be sent afterwards.
    exchange.abort(denial, cause=str(decision.cause))
    return denial


def outlived(tunnel: Tunnel, revision: PolicyTransition, *, waited: bool) -> bool:
    """Return whether the tunnel must be closed. `waited`: one of its requests waits, or has waited, for a person.

    A denied tunnel that the new policy would allow is closed too: the client's next tunnel will work.
    """
    if tunnel.carries is Carries.PROXY:
        return False
    if tunnel.refused is not None:
        # A request that has waited for a person is decided again in this tunnel.
        return revision.opens(tunnel.host, tunnel.port) and not waited
    return not revision.decide_connect(tunnel.host, tunnel.port).allowed
