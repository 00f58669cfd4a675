"""Parse and decide a CONNECT request before any connection is opened for it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent_sandbox.policy import Ambiguous, Decision, Policy, advise, decide_connect, parse_authority
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.wire.http1_head import BadHeadError, RequestHead

# On the HTTPS port, a denial is sent inside the tunnel, because most clients do not show the response to a CONNECT.
EXPLAINED_PORT = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A CONNECT that is answered with 200, with the decision of `policy`. A denial is sent inside the tunnel."""

    host: str
    port: int
    decision: Decision
    policy: Policy = field(repr=False)

    def under(self, policy: Policy) -> Decision:
        """Return the decision of `policy`, which may have replaced the one that decided before."""
        return self.decision if policy is self.policy else decide_connect(policy, host=self.host, port=self.port)


def _never(*_: object) -> bool:
    return False


class ConnectDeniedError(Exception):
    """A CONNECT that is answered with a denial."""

    def __init__(self, denial: Denial, port: int = 0) -> None:
        super().__init__(denial.reason)
        self.denial = denial
        self.port = port


def decide_tunnel(
    head: RequestHead, policy: Callable[[], Policy], asks: Callable[[str, int, Decision], bool] = _never
) -> Opened:
    """Decide the CONNECT in `head`. Raises `ConnectDeniedError`, `BadHeadError`.

    `asks` says whether a person would be asked about a denied request: that needs the request inside the tunnel.
    """
    host, port = _destination(head)
    current = policy()
    decision = decide_connect(current, host=host, port=port)
    explained = port == EXPLAINED_PORT and not is_address(host)
    if decision.allowed or explained or asks(host, port, decision):
        return Opened(host=host, port=port, decision=decision, policy=current)
    denial = Denial(
        reason=decision.reason,
        status=current.settings.block_status,
        host=host,
        method="CONNECT",
        path="",
        rule=decision.rule,
        near_miss=decision.near_miss,
        hint=advise(host, decision),
    )
    raise ConnectDeniedError(denial, port)


def _destination(head: RequestHead) -> tuple[str, int]:
    if head.body != 0:
        raise BadHeadError("CONNECT with a body")
    try:
        destination = parse_authority(head.target, default_port=None)
        named = parse_authority(head.host, default_port=destination[1]) if head.host else destination
    except Ambiguous as doubt:
        raise BadHeadError(f"ambiguous: {doubt}") from doubt
    # Some clients omit the port in Host, or put 80 or 443 there regardless; so compare only the names.
    if named[0] != destination[0]:
        raise BadHeadError("the Host header of a CONNECT names a different host")
    return destination
