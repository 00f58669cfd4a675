import json
from pathlib import Path

import pytest

from agent_sandbox.engines.compose import platforms
from agent_sandbox.engines.compose.checks import versions as checks
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.compose.platforms import Surroundings
from agent_sandbox.engines.result import CheckResult, Status, fail, ok, warn
from agent_sandbox.problems import UserError
from fake_docker import FakeDocker

MAC = Surroundings(system="darwin")


@pytest.fixture
def host(docker: FakeDocker) -> EngineHost:
    assert docker.rules
    return EngineHost(engine=DOCKER)


def with_engine(docker: FakeDocker, version: str) -> None:
    found = {"Client": {"Version": "28.0.0", "Context": "colima"}, "Server": {"Version": version}}
    docker.says("version --format", out=json.dumps(found))


def test_shows_the_path_and_version_of_the_docker_command(docker: FakeDocker, host: EngineHost) -> None:
    with_engine(docker, "28.0.0")
    assert checks.command(host) == ok("docker", f"{docker.folder}/docker 28.0.0")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("28.0.0", ok("engine", "28.0.0, context colima")),
        (
            "24.0.9",
            fail("engine", "24.0.9, context colima is older than 25.0.0", "brew upgrade colima && colima update"),
        ),
    ],
)
def test_fails_if_the_engine_is_too_old(
    docker: FakeDocker, host: EngineHost, version: str, expected: CheckResult
) -> None:
    with_engine(docker, version)
    assert checks.engine(host) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x.sock. Is it?",
            "unix:///x.sock: the Docker daemon does not answer; sudo systemctl start docker",
        ),
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///x.sock: Get",
            (
                "unix:///x.sock: no permission to use the Docker daemon;"
                " sudo usermod -aG docker $USER, then log out and in again"
            ),
        ),
        (
            'unable to resolve docker endpoint: context "x": context not found',
            (
                'docker: the Docker context "x" does not exist;'
                " docker context use default (unset DOCKER_CONTEXT if it is set)"
            ),
        ),
    ],
)
def test_explains_why_the_engine_does_not_answer(
    docker: FakeDocker, host: EngineHost, said: str, expected: str
) -> None:
    docker.says("version", out='{"Client": {}, "Server": null}', err=said, code=1).says("info", err=said, code=1)
    with pytest.raises(UserError) as raised:
        checks.engine(host)
    assert list(map(str, raised.value.problems)) == [expected]


@pytest.mark.parametrize(
    ("out", "code", "expected"),
    [
        ("2.26.1-4\n", 0, ok("compose", "2.26.1-4")),
        ("v2.20.0\n", 0, fail("compose", "2.20.0 is older than 2.24.0", "sudo apt install docker-compose-v2")),
    ],
)
def test_fails_if_compose_is_too_old(
    docker: FakeDocker, host: EngineHost, out: str, code: int, expected: CheckResult
) -> None:
    docker.says("compose version --short", out=out, code=code)
    assert checks.compose(host) == expected


def test_reports_that_compose_v1_is_not_enough(docker: FakeDocker, host: EngineHost) -> None:
    docker.says("compose version", err="docker: 'compose' is not a docker command.\n", code=1)
    assert checks.compose(host).what == "the docker command has no compose v2"
    v1 = docker.folder / "docker-compose"
    v1.write_text("#!/bin/sh\n")
    v1.chmod(0o755)
    assert checks.compose(host).what == (
        "the docker command has no compose v2 (docker-compose, which is v1, is not enough)"
    )


def test_accepts_an_installed_buildx(docker: FakeDocker, host: EngineHost) -> None:
    docker.says("buildx version", out="github.com/docker/buildx v0.13.1 abc\n")
    assert checks.buildx(host) == ok("buildx", "v0.13.1")


def test_fails_without_buildx(docker: FakeDocker, host: EngineHost) -> None:
    docker.says("buildx version", err="docker: unknown command: docker buildx\n", code=1)
    assert checks.buildx(host).status is Status.FAIL


@pytest.mark.parametrize(("version", "status"), [("26.1.5", Status.WARN), ("28.0.0", Status.OK)])
def test_warns_about_an_engine_that_has_an_address_on_the_stacks_network(
    docker: FakeDocker, host: EngineHost, version: str, status: Status
) -> None:
    with_engine(docker, version)
    assert checks.isolation(host).status is status


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"], Status.OK),
        (["name=seccomp,profile=/etc/stricter.json"], Status.OK),
        (["name=seccomp,profile=unconfined"], Status.WARN),
        (["name=rootless"], Status.WARN),
        (None, Status.WARN),
    ],
)
def test_warns_about_an_engine_that_does_not_filter_system_calls(
    docker: FakeDocker, host: EngineHost, options: list[str] | None, status: Status
) -> None:
    docker.says("info --format", out=json.dumps({"SecurityOptions": options}))
    assert checks.seccomp(host).status is status


def test_raises_if_the_docker_command_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="the docker command was not found"):
        checks.command(EngineHost(engine=DOCKER))


def remote(endpoint: str) -> CheckResult:
    what = f"the engine runs on another machine ({endpoint}) and mounts that machine's files, not this project's"
    return warn("platform", what, "unset DOCKER_HOST, or docker context use default")


@pytest.mark.parametrize(
    ("around", "engine", "expected"),
    [
        (
            Surroundings(),
            ("unix:///var/run/docker.sock", "Debian"),
            ok("platform", "Linux, unix:///var/run/docker.sock"),
        ),
        (
            Surroundings(kernel="6-microsoft-standard-WSL2"),
            ("unix:///var/run/docker.sock", "Docker Desktop"),
            ok("platform", "WSL 2, unix:///var/run/docker.sock"),
        ),
        (
            MAC,
            ("unix:///Users/u/.colima/default/docker.sock", "Ubuntu"),
            ok("platform", "Colima, unix:///Users/u/.colima/default/docker.sock"),
        ),
        (MAC, ("unix:///var/run/docker.sock", "OrbStack"), ok("platform", "OrbStack, unix:///var/run/docker.sock")),
        (Surroundings(), ("", "Debian"), ok("platform", "Linux")),
        (Surroundings(), ("ssh://u@h", "Debian"), remote("ssh://u@h")),
        (MAC, ("tcp://192.0.2.1:2376", "Debian"), remote("tcp://192.0.2.1:2376")),
    ],
)
def test_names_the_platform_with_its_endpoint_and_warns_about_remote_engines(
    docker: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    around: Surroundings,
    engine: tuple[str, str],
    expected: CheckResult,
) -> None:
    endpoint, system = engine
    monkeypatch.setattr(platforms, "here", lambda: around)
    docker.says("context inspect", out=f"{endpoint}\n", code=0 if endpoint else 1)
    docker.says("info", out=f'{{"OperatingSystem": "{system}"}}')
    assert checks.platform(EngineHost(engine=DOCKER)) == expected
