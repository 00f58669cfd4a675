import pytest

from agent_sandbox.runtime.compose import platforms
from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.checks.platform import platform
from agent_sandbox.runtime.compose.engine import DOCKER
from agent_sandbox.runtime.compose.platforms import Surroundings
from agent_sandbox.runtime.driver.result import CheckResult, ok, warn
from fake_docker import FakeDocker

MAC = Surroundings(system="darwin")


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
    assert platform(EngineHost(engine=DOCKER)) == expected
