from agent_sandbox.audit_event import Event
from agent_sandbox.policy import parse_request
from agent_sandbox.proxy.decide.probes import event_of_denial
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from table_tests import each

OWN = Tunnel(client="10.0.0.2", carries=Carries.PROXY, own=True)
AGENT = Tunnel(client="10.0.0.3", carries=Carries.PROXY)
INSIDE = Tunnel(client="10.0.0.3", carries=Carries.HTTP, host="agent-sandbox.invalid", port=80)
HEALTH = ("127.0.0.1", 9, "GET", "/agent-sandbox-health")
START = ("agent-sandbox.invalid", 80, "GET", "/")


@each(
    ("asked", "tunnel", "event"),
    [
        (HEALTH, OWN, Event.HEALTH),
        (HEALTH, AGENT, Event.REQUEST),
        (("127.0.0.1", 9, "POST", "/agent-sandbox-health"), OWN, Event.REQUEST),
        (("127.0.0.1", 9, "GET", "/agent-sandbox-health?x"), OWN, Event.REQUEST),
        (("127.0.0.1", 80, "GET", "/agent-sandbox-health"), OWN, Event.REQUEST),
        (START, AGENT, Event.START),
        (START, OWN, Event.START),
        (START, INSIDE, Event.REQUEST),
        (("agent-sandbox.invalid", 80, "GET", "/?x"), AGENT, Event.REQUEST),
        (("agent-sandbox.invalid", 8080, "GET", "/"), AGENT, Event.REQUEST),
        (("x.agent-sandbox.invalid", 80, "GET", "/"), AGENT, Event.REQUEST),
    ],
)
def test_recognises_the_stacks_own_checks_only_by_exact_request_and_origin(
    asked: tuple[str, int, str, str], tunnel: Tunnel, event: Event
) -> None:
    host, port, method, target = asked
    request = parse_request(scheme="http", host=host, port=port, method=method, target=target)
    assert event == event_of_denial(request, tunnel)
