from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.engines.compose.checks.beside import beside
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.result import CheckResult, ok, warn
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.project import Project
from agent_sandbox.resources import data_root
from fake_docker import FakeDocker
from fake_stack import write_stack_file

AGENT = known_agents(data_root() / "templates")[0]
HERE = "sha256:" + "1" * 64
PINNED = f"postgres:17@{HERE}"
CHANGES = "can change whenever it is pulled again"
NAME_USER = "name the user it runs as with `user` under `beside: db`"
ROOT = "starts as root, which has no capabilities there"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    write_stack_file(tmp_path, AGENT)
    return read_project(tmp_path)


def examined(project: Project, service: str) -> tuple[CheckResult, ...]:
    file = project.root / ".devcontainer" / "docker-compose.yml"
    text = file.read_text().replace("services: {", f"services: {{firewall.db: {{image: x}}, db: {service}, ")
    file.write_text(text)
    return tuple(beside(EngineHost(engine=DOCKER), project))


@pytest.mark.parametrize(
    ("service", "user", "results"),
    [
        ("{image: 'NAME'}", "postgres", [ok("beside", "db: pinned or built here, and not root")]),
        ("{image: 'agent-sandbox/beside:1'}", "999:999", [ok("beside", "db: pinned or built here, and not root")]),
        ("{image: 'NAME', user: postgres}", "", [ok("beside", "db: pinned or built here, and not root")]),
        ("{image: 'NAME'}", "0:0", [warn("beside", f"db: {PINNED} {ROOT}", NAME_USER)]),
        (
            "{image: 'postgres:17'}",
            "",
            [
                warn("beside", f"db: postgres:17 {ROOT}", NAME_USER),
                warn(
                    "beside",
                    f"db: postgres:17 {CHANGES}",
                    f"write `image: postgres:17@{HERE}`",
                ),
            ],
        ),
    ],
)
def test_warns_about_images_that_are_not_pinned_or_start_as_root(
    project: Project, docker: FakeDocker, service: str, user: str, results: list[CheckResult]
) -> None:
    docker.says("image inspect", out=f'{{"user": "{user}", "digests": ["postgres@{HERE}"]}}\n')
    assert list(examined(project, service.replace("NAME", PINNED))) == results


def test_suggests_an_image_with_a_digest_if_the_image_is_in_no_registry(project: Project, docker: FakeDocker) -> None:
    docker.says("image inspect", out='{"user": "www", "digests": null}\n')
    assert examined(project, "{image: 'mine:1'}") == (
        warn("beside", f"db: mine:1 {CHANGES}", "name an image with a digest"),
    )


def test_warns_about_an_image_that_is_not_on_this_machine(project: Project, docker: FakeDocker) -> None:
    docker.says("image inspect", err="Error: No such image: x", code=1)
    assert examined(project, "{image: x}") == (
        warn("beside", "db: x is not on this machine yet", "agent-sandbox up pulls or builds it"),
    )


def test_raises_if_the_image_cannot_be_inspected(project: Project, docker: FakeDocker) -> None:
    docker.says("image inspect", err="something else", code=1)
    with pytest.raises(UserError, match="something else"):
        examined(project, "{image: x}")


def test_checks_nothing_without_services_beside_the_sandbox(project: Project, docker: FakeDocker) -> None:
    assert tuple(beside(EngineHost(engine=DOCKER), project)) == ()
    assert docker.calls == []
