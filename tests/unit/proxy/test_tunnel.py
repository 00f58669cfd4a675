from agent_sandbox.proxy.tunnel import Carries, Tunnel


def test_a_tunnel_that_says_nothing_else_leads_nowhere() -> None:
    tunnel = Tunnel(client="10.0.0.3", carries=Carries.PROXY)
    assert (tunnel.host, tunnel.port, tunnel.refused) == ("", 0, None)
