from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container, Intruders, Sharer
from agent_sandbox.problems import Problem
from fake_docker import FakeDocker

AGENT = Container(id="a1", service="agent", image="x", state="running")


def test_lists_intruders_with_the_commands_that_remove_them(docker: FakeDocker) -> None:
    docker.says("network inspect app-1_sandbox", out='{"9": {"Name": "db"}}')
    docker.says("ps --quiet --no-trunc", out="1\n").says("inspect --type container", out="c3 /debug container:f2\n")
    networks = ("app-1_sandbox", "mine")
    firewall = Container(id="f2", service="firewall", image="x", state="running", networks=networks)
    assert DRIVER.intruders((firewall, AGENT), "app-1") == Intruders(
        connected=("docker network disconnect mine f2",),
        strangers=("docker network disconnect app-1_sandbox db",),
        sharing=(Sharer(name="debug", mending="docker stop debug"),),
    )


def test_explains_a_known_fault_before_what_the_caller_finds_and_quotes_others() -> None:
    mine = Problem(where="x", what="mine")
    assert DRIVER.explain("no space left on device", doing="up", otherwise=lambda: mine).where == "disk"
    assert DRIVER.explain("it broke\n", doing="up", otherwise=lambda: mine) == mine
    quoted = Problem(where="up", what="docker failed: it broke", hint="run agent-sandbox doctor to find the cause")
    assert DRIVER.explain("it broke\n", doing="up", otherwise=lambda: None) == quoted
