from agent_sandbox.runtime.compose.containers import Container
from agent_sandbox.runtime.compose.sharing import sharers
from fake_docker import FakeDocker

PROXY, FIREWALL, AGENT, EXTRA = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)
A, B, C, D = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)
OWN = (f"{PROXY} /p app_egress", f"{FIREWALL} /f app_sandbox", f"{AGENT} /agent container:{FIREWALL}")


def stack(**states: str) -> tuple[Container, ...]:
    ids = {"proxy": PROXY, "firewall": FIREWALL, "agent": AGENT, "extra": EXTRA}
    return tuple(
        Container(id=ids[service][:12], service=service, image="x", state=state) for service, state in states.items()
    )


UP = stack(proxy="running", firewall="running", agent="running")


def engine(docker: FakeDocker, *rows: str, code: int = 0) -> FakeDocker:
    docker.says("inspect --type container --format", out="".join(f"{row}\n" for row in rows), code=code)
    return docker.says("ps --quiet --no-trunc", out="".join(f"{row.split()[0]}\n" for row in rows))


def test_the_stack_alone_shares_with_nobody(docker: FakeDocker) -> None:
    engine(docker, *OWN, f"{A} /elsewhere bridge", f"{B} /host host", f"{C} /beside container:{A}")
    assert sharers(UP) == ()


def test_whoever_joined_the_firewall_the_agent_or_the_proxy_is_named(docker: FakeDocker) -> None:
    rows = (f"{A} /a container:{FIREWALL}", f"{B} /b container:{AGENT}", f"{C} /c container:{PROXY}")
    engine(docker, *rows, *OWN)
    assert sharers(UP) == ("a", "b", "c")


def test_a_chain_of_containers_is_followed_to_its_end(docker: FakeDocker) -> None:
    engine(docker, *OWN, f"{A} /a container:{B}", f"{B} /b container:{C}", f"{C} /c container:{AGENT}")
    assert sharers(UP) == ("a", "b", "c")


def test_a_service_that_an_override_adds_is_named_too(docker: FakeDocker) -> None:
    engine(docker, *OWN, f"{EXTRA} /app-1-extra-1 container:{FIREWALL}")
    assert sharers((*UP, *stack(extra="running"))) == ("app-1-extra-1",)


def test_a_container_that_ended_meanwhile_hides_no_other(docker: FakeDocker) -> None:
    engine(docker, *OWN, f"{A} /a container:{FIREWALL}", code=1)
    assert sharers(UP) == ("a",)


def test_a_circle_ends(docker: FakeDocker) -> None:
    engine(docker, *OWN, f"{A} /a container:{B}", f"{B} /b container:{A}")
    assert sharers(UP) == ()


def test_a_stack_that_does_not_run_is_not_asked_about(docker: FakeDocker) -> None:
    assert (sharers(stack(firewall="exited", agent="exited")), docker.calls) == ((), [])


def test_no_sharers_are_reported_if_docker_fails(docker: FakeDocker) -> None:
    docker.says("ps --quiet", err="Cannot connect\n", code=1)
    assert sharers(UP) == ()
