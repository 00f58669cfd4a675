import pytest

from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.compose.reprotect import reprotect
from agent_sandbox.engines.container import Container
from agent_sandbox.stack.containers import REPROTECT
from fake_docker import FakeDocker

AGENT = Container(id="agent0000000", service="agent", image="x", state="running")


def test_runs_the_helper_without_a_network_and_with_minimal_capabilities(docker: FakeDocker) -> None:
    docker.says("run")
    assert not reprotect(DOCKER, AGENT, {".git/config": "12ab", "a b/.git/config": "34cd"})
    assert docker.calls[0].split(" ") == [
        "run", "--rm", "--pull=never", "--network=none", "--read-only", "--user=0:0", "--cap-drop=ALL",
        "--security-opt=no-new-privileges", "--security-opt=apparmor=unconfined", "--security-opt=label=disable",
        "--cap-add=SYS_ADMIN", "--cap-add=SYS_PTRACE", "--cap-add=SYS_CHROOT", "--cap-add=DAC_OVERRIDE",
        "--cap-add=DAC_READ_SEARCH", "--cap-add=CHOWN", "--cap-add=FOWNER", "--userns=host",
        "--pid=container:agent0000000", "--cgroupns=host", "--mount",
        "type=bind,source=/sys/fs/cgroup,target=/cgroup", "--entrypoint", REPROTECT, "x",
        "12ab", ".git/config", "34cd", "a", "b/.git/config",
    ]  # fmt: skip


@pytest.mark.parametrize(("err", "why"), [("", "docker run ended with 125"), ("docker: a\nnot frozen\n", "not frozen")])
def test_reports_why_the_helper_failed(docker: FakeDocker, err: str, why: str) -> None:
    docker.says("run", err=err, code=125)
    assert reprotect(DOCKER, AGENT, {".git/config": "12ab"}) == why
