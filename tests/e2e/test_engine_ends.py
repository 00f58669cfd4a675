"""The engine ends under a stack, in each way that an engine can: on a machine that is the test's own."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from engine import proxy_image, run
from isolated_engine import Machine
from real_stacks import STANDIN_ADDRESS, Projects, start_internet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from real_stacks import Project

# One who tries both ways all the time, and notes what came of it in the workspace: past the proxy, and through it.
TRYING = f"""
while :; do
    echo $(for way in "--noproxy {STANDIN_ADDRESS} {STANDIN_ADDRESS}" denied.test; do
        curl --silent --output /dev/null --max-time 2 --write-out '%{{http_code}} ' $way
    done) >>tries
done
"""
DENIED, NOTHING = "000 403", "000 000"
# How the engine ends and starts again, and whether its containers go on meanwhile: it ends those once it is back, and
# takes that for somebody's wish. So it starts none of them again.
ENDINGS: dict[str, tuple[Callable[[Machine], None], Callable[[Machine], None], bool]] = {
    "is killed": (Machine.kill_engine, Machine.start_engine, True),
    "is stopped": (Machine.stop_engine, Machine.start_engine, False),
    "is cut off with its machine": (Machine.cut_off, Machine.turn_on, False),
}


@pytest.fixture(scope="module")
def images() -> tuple[str, ...]:
    """Have the engine that is used otherwise build the stack's images: what is small is taken over soon."""
    proxy = proxy_image()
    return proxy, proxy.replace("/proxy:", "/base:"), proxy.replace("/proxy:", "/copilot:")


@pytest.fixture(scope="module")
def machine(images: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine whose engine has these images; from now on, all commands go to that engine."""
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
    """A stack that runs there, beside a stand-in for the internet that is always on."""
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
    """Return what came of each try."""
    return (stack.path / "tries").read_text().splitlines()


def states(stack: Project) -> dict[str, str]:
    """Return what `status` says of each service."""
    found = json.loads(stack.sandbox("status", "--json").stdout)["services"]
    return {one["service"]: one["health"] if one["state"] == "running" else one["state"] for one in found}


def wait_for_the_proxy(stack: Project) -> None:
    """Wait until the proxy is healthy, which nobody has started."""
    deadline = time.monotonic() + 20
    while (found := states(stack))["proxy"] != "healthy":
        assert time.monotonic() < deadline, found


@pytest.mark.parametrize("how", ENDINGS)
def test_an_engine_that_ends_opens_nothing_and_up_mends_what_does_not_come_back(
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
