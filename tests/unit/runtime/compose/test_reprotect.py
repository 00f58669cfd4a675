import json

import pytest

from agent_sandbox.runtime.compose.engine import DOCKER
from agent_sandbox.runtime.compose.reprotect import reprotect
from agent_sandbox.runtime.driver.container import Container
from agent_sandbox.stack.services.agent import REPROTECT
from fake_docker import FakeDocker

AGENT = Container(id="agent0000000", service="agent", image="x", state="running")


def test_the_helper_gets_no_network_and_no_more_rights_than_it_needs(docker: FakeDocker) -> None:
    docker.says("ps --quiet").says("run")
    assert not reprotect(DOCKER, AGENT, {".git/config": "12ab", "a b/.git/config": "34cd"})
    assert docker.calls[1].split(" ", 25) == [
        "run", "--rm", "--pull=never", "--network=none", "--read-only", "--user=0:0", "--cap-drop=ALL",
        "--security-opt=no-new-privileges", "--security-opt=apparmor=unconfined", "--security-opt=label=disable",
        "--cap-add=SYS_ADMIN", "--cap-add=SYS_PTRACE", "--cap-add=SYS_CHROOT", "--cap-add=DAC_OVERRIDE",
        "--cap-add=DAC_READ_SEARCH", "--cap-add=CHOWN", "--cap-add=FOWNER", "--userns=host",
        "--pid=container:agent0000000", "--cgroupns=host", "--mount",
        "type=bind,source=/sys/fs/cgroup,target=/cgroup", "--entrypoint", REPROTECT, "x",
        json.dumps({
            "processes": {"agent0000000": 1},
            "files": [["12ab", {"agent0000000": ".git/config"}], ["34cd", {"agent0000000": "a b/.git/config"}]],
        }),
    ]  # fmt: skip


@pytest.mark.parametrize(("err", "why"), [("", "docker run ended with 125"), ("docker: a\nnot frozen\n", "not frozen")])
def test_a_helper_that_fails_says_why(docker: FakeDocker, err: str, why: str) -> None:
    docker.says("ps --quiet").says("run", err=err, code=125)
    assert reprotect(DOCKER, AGENT, {".git/config": "12ab"}) == why


def container(name: str, pid: int, **mounts: str) -> dict[str, object]:
    """Return what the engine says of a container with these mounts, by where they are inside."""
    found = [{"Source": source, "Destination": place} for place, source in mounts.items()]
    return {"Id": name.ljust(64, "0"), "Image": "sha256:5e", "State": {"Pid": pid}, "Mounts": found}


def test_other_containers_with_the_same_file_get_its_new_mount_too(docker: FakeDocker) -> None:
    config = "/main/.git/config"
    found = [
        container("agent", 10, **{config: config, "/workspace/x": "/feature/x"}),
        container("other", 20, **{config: config, "/workspace/x": "/other/x"}),
        container("main", 30, **{"/workspace/.git/config": config}),
        container("stranger", 40, **{config: "/elsewhere/.git/config"}),
    ]
    docker.says("ps --quiet --filter label=com.docker.compose.service=agent", out="1 2 3 4\n")
    docker.says("inspect --type container 1 2 3 4", out=json.dumps(found)).says("run")
    assert not reprotect(DOCKER, AGENT, {config: "12ab", "x": "34cd"})
    run = docker.calls[2]
    assert "--pid=host " in run
    other, main = (name.ljust(64, "0") for name in ("other", "main"))
    assert json.loads(run.partition(f"{REPROTECT} sha256:5e ")[2]) == {
        "processes": {AGENT.id: 10, other: 20, main: 30},
        "files": [
            ["12ab", {AGENT.id: config, other: config, main: "/workspace/.git/config"}],
            ["34cd", {AGENT.id: "x"}],
        ],
    }
