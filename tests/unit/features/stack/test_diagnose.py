from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.plan import RunCommand
from agent_sandbox.features.stack.diagnose import first_failed, why_not_up
from agent_sandbox.problems import Problem
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import with_containers

PROJECT = Project(root=Path("/p"), name="app-1", agents=("example",), owner=Owner(), images=(), files=())
STEP = RunCommand(argv=("docker", "compose", "up"), cwd=Path("/p"), project="app-1", purpose="starting the stack")


def container(service: str, state: str, health: str = "") -> Container:
    return Container(id=service, service=service, image="x", state=state, health=health)


def test_reports_the_first_container_that_failed() -> None:
    found = (
        container("proxy", "running", "healthy"),
        container("firewall", "exited"),
        container("agent", "created"),
        container("extra", "exited"),
    )
    assert first_failed(found) == container("firewall", "exited")


def test_a_container_that_could_not_be_started_has_failed() -> None:
    unstartable = replace(container("firewall", "created"), error="exec: no such file")
    assert first_failed((container("proxy", "running"), unstartable)) == unstartable


def test_no_container_has_failed_if_all_are_ready() -> None:
    assert first_failed((container("proxy", "running", "healthy"),)) is None


def test_quotes_the_last_log_lines_of_the_failed_container(docker: FakeDocker) -> None:
    with_containers(docker, firewall="exited").says(
        "logs --tail 15 firewall0000", out='locking\n{"decision": "deny"}\n', err="the direct way out is open\n"
    )
    said = "dependency failed to start: container app-1-firewall-1 exited (1)\n"
    expected = Problem(
        where="firewall",
        what="exited with code 1:\n  locking\n  the direct way out is open",
        hint="agent-sandbox logs firewall shows the whole output",
    )
    assert list(why_not_up(DRIVER, PROJECT)(STEP, said)) == [expected]


def test_explains_known_docker_errors_without_inspecting_containers(docker: FakeDocker) -> None:
    said = "Error response from daemon: Pool overlaps with other one on this address space\n"
    (problem,) = why_not_up(DRIVER, PROJECT)(STEP, said)
    assert problem.what == "the stack's subnet is in use by another Docker network"
    assert docker.calls == []


def test_quotes_docker_if_no_container_failed(docker: FakeDocker) -> None:
    docker.says("ps --all")
    (problem,) = why_not_up(DRIVER, PROJECT)(STEP, "something odd\n")
    assert (problem.where, problem.what) == ("starting the stack", "docker failed: something odd")


def test_names_failed_containers_before_starting_containers() -> None:
    failed = container("web", "running", "unhealthy")
    assert first_failed((container("agent", "running", "starting"), failed)) == failed
    starting = container("db", "running", "starting")
    assert first_failed((container("agent", "running", "healthy"), starting)) == starting


def test_suggests_to_set_user_for_a_service_that_fails_as_root(docker: FakeDocker) -> None:
    with_containers(docker, db="exited").says(
        "logs --tail 15", err="chown: changing ownership of '/data': Operation not permitted\n"
    )
    (problem,) = why_not_up(DRIVER, PROJECT)(STEP, "container app-1-db-1 exited (1)\n")
    assert str(problem) == (
        "db: exited with code 1:\n  chown: changing ownership of '/data': Operation not permitted; a service has no"
        " capabilities, not even as root: name the user it runs as with `user` under `beside: db`"
    )
