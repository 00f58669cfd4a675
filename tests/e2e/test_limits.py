"""An agent that uses up a resource: its limits hold, and the proxy keeps answering."""

import pytest

from agent_hog import BURNING, burning
from engine import run
from real_stacks import Project, Projects

MIB = 1 << 20
# Each resource, and the most that the agent can take of it.
BURNS = {
    "processes": 200,
    "memory": 512,
    "processors": 125,  # hundredths: one processor, and the error of a short measurement
    "descriptors": 16_384,
    "connections": 3000,
    "shared_memory": 64,
    "files": 100_000,
}


@pytest.fixture(scope="module")
def small(projects: Projects) -> Project:
    """A stack whose agent has low limits."""
    project = projects.make("small", "claude", "--memory", "512m", "--cpus", "1", "--pids", "200")
    project.allow("allowed.test")
    project.sandbox("up")
    return project


def ask(project: Project, url: str) -> int:
    """Send a request from the firewall container, which has its own limits; return the status."""
    curl = "curl --proxy http://$AGENT_SANDBOX_PROXY -sS -o /dev/null -w '%{http_code}' --max-time 60"
    return int(project.compose("exec", "-T", "firewall", "sh", "-c", f"{curl} {url}", check=False).stdout)


def test_containers_run_with_the_configured_limits(small: Project) -> None:
    held = {name: one["HostConfig"] for name, one in small.containers().items()}
    agent = held["agent"]
    assert (agent["Memory"], agent["MemorySwap"], agent["PidsLimit"]) == (512 * MIB, 512 * MIB, 200)
    assert (agent["CpuQuota"], agent["CpuPeriod"]) == (100_000, 100_000)
    for limits in held.values():
        assert min(limits["Memory"], limits["MemorySwap"], limits["PidsLimit"], limits["CpuQuota"]) > 0
        assert limits["LogConfig"] == {"Type": "local", "Config": {"max-file": "3", "max-size": "10m"}}
        assert {one["Name"]: one["Hard"] for one in limits["Ulimits"]}["core"] == 0
        assert not limits["OomKillDisable"]
    assert "limits  memory 512m, cpus 1, pids 200" in small.sandbox("status").stdout


@pytest.mark.parametrize("what", BURNS)
def test_the_proxy_keeps_answering_while_the_agent_uses_up_a_resource(small: Project, what: str) -> None:
    with burning(small, what) as taken:
        assert 0 < taken <= BURNS[what]
        assert ask(small, "http://allowed.test/") == 200
        assert ask(small, "http://denied.test/") == 403
        proxy = small.containers()["proxy"]
        assert (proxy["State"]["Health"]["Status"], proxy["RestartCount"]) == ("healthy", 0)
    small.wait_until_it_answers("https://allowed.test/", 200)


def taken_outside(project: Project, what: str) -> int:
    """Use up a resource outside the stack, as the agent's user with a desktop's limits; return how much it got.

    It runs in a container without a user namespace, so the kernel sees a process of the user.
    """
    ulimits = ("--ulimit=memlock=8388608", "--ulimit=msgqueue=819200", "--ulimit=sigpending=30000")
    image = project.containers()["agent"]["Config"]["Image"]
    argv = ("--user=1000:1000", "--network=none", "--entrypoint=python3", image, "-c", BURNING, what)
    done = run("docker", "run", "--rm", "--interactive", *ulimits, *argv, check=False)
    return int(done.stdout)


@pytest.mark.parametrize("what", ["signals", "message_queues", "locked_memory"])
def test_the_agent_leaves_most_of_the_users_kernel_limits_to_other_programs(small: Project, what: str) -> None:
    alone = taken_outside(small, what)
    with burning(small, what) as taken:
        assert 0 < taken < alone
        assert taken_outside(small, what) > alone // 2


@pytest.mark.parametrize("service", ["proxy", "firewall", "agent"])
def test_core_dumps_are_disabled_in_every_container(small: Project, service: str) -> None:
    assert run("docker", "exec", small.containers()[service]["Id"], "sh", "-c", "ulimit -Hc").stdout == "0\n"
