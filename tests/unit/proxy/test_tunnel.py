from agent_sandbox.policy import Decision, Effect
from agent_sandbox.proxy.tunnel import Carries, Tunnel


def test_a_tunnel_has_no_host_port_or_denial_by_default() -> None:
    tunnel = Tunnel(client="10.0.0.3", carries=Carries.PROXY)
    assert (tunnel.host, tunnel.port, tunnel.refused) == ("", 0, None)


def test_only_a_denial_refuses_a_tunnel() -> None:
    for effect in Effect:
        decision = Decision(effect=effect, rule=None, origin=None, reason="so")
        tunnel = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443, decision=decision)
        assert tunnel.refused is (decision if effect is Effect.DENY else None)
