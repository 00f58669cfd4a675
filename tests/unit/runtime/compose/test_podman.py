import json

import pytest

from agent_sandbox.runtime.compose.checks import versions
from agent_sandbox.runtime.compose.checks.users import namespace_of
from agent_sandbox.runtime.compose.podman import DRIVER, PODMAN, PodmanHost
from agent_sandbox.runtime.driver.result import fail, ok
from fake_docker import FakeDocker

# Output of podman 5.4.2.
VERSION = {"Client": {"APIVersion": "5.4.2", "Version": "5.4.2", "Os": "linux"}}
INFO = {
    "host": {
        "cgroupControllers": ["cpu", "memory"],
        "cpus": 2,
        "kernel": "6.18.44",
        "memTotal": 25276063744,
        "security": {
            "rootless": True,
            "seccompEnabled": True,
            "seccompProfilePath": "/usr/share/containers/seccomp.json",
        },
    },
    "store": {"graphRoot": "/var/lib/containers/storage"},
}
NETWORK = {"name": "n1", "id": "1bd2", "subnets": [{"subnet": "10.89.0.0/24", "gateway": "10.89.0.1"}]}
IMAGE = '{"tags": ["localhost/agent-sandbox/x:1"], "labels": {"a": "b"}}\n'


@pytest.fixture
def podman(docker: FakeDocker) -> FakeDocker:
    """Put a fake `podman` on PATH."""
    return FakeDocker(docker.folder, program="podman")


@pytest.fixture
def host() -> PodmanHost:
    return PodmanHost(engine=PODMAN)


def test_the_version_of_the_podman_command_is_that_of_the_engine(podman: FakeDocker, host: PodmanHost) -> None:
    podman.says("version --format", out=json.dumps(VERSION))
    assert (host.answers, versions.engine(host)) == (True, ok("engine", "5.4.2"))


def test_fails_if_podman_is_too_old(podman: FakeDocker, host: PodmanHost) -> None:
    podman.says("version --format", out=json.dumps({"Client": {"Version": "4.3.1"}}))
    assert versions.engine(host) == fail("engine", "4.3.1 is older than 4.7.0", PODMAN.install)


def test_converts_podman_info_to_dockers_format(podman: FakeDocker, host: PodmanHost) -> None:
    podman.says("info", out=json.dumps(INFO))
    assert host.info == {
        "KernelVersion": "6.18.44",
        "MemTotal": 25276063744,
        "NCPU": 2,
        "DockerRootDir": "/var/lib/containers/storage",
        "SecurityOptions": ["name=seccomp,profile=/usr/share/containers/seccomp.json", "name=rootless"],
        "MemoryLimit": True,
        "CpuCfsQuota": True,
        "PidsLimit": False,
    }
    assert namespace_of(host.info) == "rootless"


def test_reports_no_security_options_if_podman_info_has_none(podman: FakeDocker, host: PodmanHost) -> None:
    podman.says("info", out="{}")
    assert host.info["SecurityOptions"] == []


def test_converts_podman_networks_to_dockers_format(podman: FakeDocker, host: PodmanHost) -> None:
    podman.says("network ls", out="n1\n").says("network inspect", out=json.dumps([NETWORK]))
    expected = {"Name": "n1", "Id": "1bd2", "Labels": None, "IPAM": {"Config": [{"Subnet": "10.89.0.0/24"}]}}
    assert host.networks == (expected,)


def test_finds_an_image_that_podman_built_by_its_name_without_localhost(podman: FakeDocker) -> None:
    podman.says("image inspect", out=IMAGE, err="Error: agent-sandbox/y:1: image not known\n", code=125)
    assert DRIVER.labels_of(("agent-sandbox/x:1", "agent-sandbox/y:1")) == {"agent-sandbox/x:1": {"a": "b"}}
