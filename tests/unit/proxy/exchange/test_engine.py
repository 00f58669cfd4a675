from typing import cast

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.upstream.dialler import Dialler
from layer_harness import hooks_of


def test_crowded_is_the_number_of_sessions_divided_by_the_limit() -> None:
    engine = Engine(
        hooks=hooks_of(),
        dialler=cast("Dialler", None),
        limits=Limits(crowd=4),
        record=lambda _: None,
        policy=lambda: Policy.deny_all(""),
    )
    engine.sessions.update(range(6))
    assert (engine.crowded, engine.spender(())("requests", 10)) == (1.5, None)
