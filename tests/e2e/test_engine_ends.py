"""The Docker engine is killed, stopped or powered off under a running stack, on a separate test machine."""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from engine import proxy_image, run
from isolated_engine import Machine
from real_stacks import STANDIN_ADDRESS, Project, Projects, start_internet

pytestmark = pytest.mark.nightly

# Tries both ways in a loop, past the proxy and through it, and writes the results to the workspace.
TRYING = f"""
while :; do
    echo $(for way in "--noproxy {STANDIN_ADDRESS} {STANDIN_ADDRESS}" denied.test; do
        curl --silent --output /dev/null --max-time 2 --write-out '%{{http_code}} ' $way
    done) >>tries
done
"""
DENIED, NOTHING = "000 403", "000 000"
# How the engine ends and starts again, and whether its containers run on meanwhile. If they do, the engine stops them
# when it is back, counts that as stopped by a user, and starts none of them again.
ENDINGS: dict[str, tuple[Callable[[Machine], None], Callable[[Machine], None], bool]] = {
    "is killed": (Machine.kill_engine, Machine.start_engine, True),
    "is stopped": (Machine.stop_engine, Machine.start_engine, False),
    "is cut off with its machine": (Machine.cut_off, Machine.turn_on, False),
}


@pytest.fixture(scope="module")
def images() -> tuple[str, ...]:
    """Build the stack's images on the ordinary engine: only small images, which load fast into the other one."""
    proxy = proxy_image()
    return proxy, proxy.replace("/proxy:", "/base:"), proxy.replace("/proxy:", "/copilot:")


@pytest.fixture(scope="module")
def machine(images: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine whose engine has these images. From here on, all commands use that engine."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    try:
        machine.load(*images)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", machine.host)
            yield machine
    finally:
        machine.remove()


@pytest.fixture(scope="module")
def stack(machine: Machine, images: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A stack on that machine, next to a stand-in for the internet that restarts with the engine."""
    assert machine.host
    internet = start_internet(tmp_path_factory.mktemp("internet"), image=images[0])
    run("docker", "update", "--restart=always", internet.name)
    folder = tmp_path_factory.mktemp("projects")
    for parent in (folder, folder.parent):
        parent.chmod(0o755)
    project = Projects(internet, folder).make("app", "copilot")
    project.write_policy("version: 1\ndomains: [allowed.test]\n")
    project.sandbox("up")
    return project


def tried(stack: Project) -> list[str]:
    """Return the result of each try."""
    return (stack.path / "tries").read_text().splitlines()


def states(stack: Project) -> dict[str, str]:
    """Return the health or state of each container, as `status` reports it."""
    found = json.loads(stack.sandbox("status", "--json").stdout)["services"]
    return {one["service"]: one["health"] if one["state"] == "running" else one["state"] for one in found}


def wait_for_the_proxy(stack: Project) -> None:
    """Wait until the proxy is healthy, without starting it."""
    deadline = time.monotonic() + 60
    while (found := states(stack))["proxy"] != "healthy":
        assert time.monotonic() < deadline, found


@pytest.mark.parametrize("how", ENDINGS)
def test_nothing_gets_out_when_the_docker_engine_ends_and_up_repairs_the_stack(
    machine: Machine, stack: Project, how: str
) -> None:
    end, begin, goes_on = ENDINGS[how]
    assert (stack.curl("https://allowed.test/before")[0], stack.curl("http://denied.test/before")[0]) == (200, 403)
    time.sleep(0.2)  # lines are written in batches
    lines = stack.traffic()
    stack.compose("exec", "--detach", "agent", "sh", "-c", TRYING)
    time.sleep(0.5)
    end(machine)
    at_its_end = tried(stack)
    time.sleep(0.5)
    assert (len(tried(stack)) > len(at_its_end) > 0) is goes_on
    begin(machine)
    if not goes_on:
        wait_for_the_proxy(stack)
    ended = [service for service, state in states(stack).items() if state == "exited"]
    assert ended in (["firewall", "agent"], ["proxy", "firewall", "agent"])
    told = f"closed  {', '.join(ended)}: not running: agent-sandbox up"
    assert told in stack.sandbox("status").stdout.splitlines()
    came = tried(stack)
    assert set(came) <= {DENIED, NOTHING}
    stack.sandbox("up")
    assert (stack.curl("https://allowed.test/after")[0], stack.curl("http://denied.test/after")[0]) == (200, 403)
    assert tried(stack) == came
    assert stack.traffic()[: len(lines)] == lines
    asked = {event["host"] for event in stack.internet.events() if event["event"] == "request"}
    assert asked == {"allowed.test"}
