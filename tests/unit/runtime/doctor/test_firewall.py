from pathlib import Path

import pytest

from agent_sandbox.runtime.compose.driver import DRIVER
from agent_sandbox.runtime.doctor.firewall import firewall
from agent_sandbox.runtime.driver.protocol import Machine
from agent_sandbox.runtime.driver.result import CheckResult, ok, warn
from fake_docker import FakeDocker
from fake_refusals import refusals_said
from fake_stack import with_containers

PLACES = [(["tcp", "192.0.2.1", 22], 80_000, 3), (["udp", "192.0.2.1", 53], 80_000, 1)]
NOT_COUNTED = warn(
    "firewall",
    "what the firewall refuses is not counted",
    "agent-sandbox logs firewall says why, and agent-sandbox up updates a stack of an earlier version",
)


@pytest.mark.parametrize(
    ("states", "said", "expected"),
    [
        ({}, "", ok("firewall", "not running")),
        ({"firewall": "exited", "agent": "exited"}, "", ok("firewall", "not running")),
        ({"firewall": "healthy", "agent": "starting"}, refusals_said(started=False), ok("firewall", "not running")),
        ({"firewall": "healthy", "agent": "healthy"}, "no nft", NOT_COUNTED),
        (
            {"firewall": "healthy", "agent": "healthy"},
            refusals_said(places=PLACES),
            ok("firewall", "4 refused in the last day: agent-sandbox logs --firewall"),
        ),
    ],
)
def test_reports_refusals_of_a_running_firewall_and_warns_if_they_are_not_counted(
    tmp_path: Path, docker: FakeDocker, states: dict[str, str], said: str, expected: CheckResult
) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text(
        'name: app-1\nx-agent-sandbox: {agent: example, dev: "1000:1000"}\nservices: {}\n'
    )
    docker.says("exec firewall0000", out=said)
    with_containers(docker, **states)
    assert firewall(Machine(path=tmp_path, cwd=tmp_path, driver=DRIVER)) == expected
