import json
from typing import Any

from agent_sandbox.engines.compose.containers import _container as from_inspect
from agent_sandbox.engines.compose.containers import containers, leftovers
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.container import Container
from fake_docker import FakeDocker
from table_tests import each


def inspected(service: str, **state: object) -> dict[str, Any]:
    return {
        "Id": f"{service}-0123456789abcdef",
        "Config": {"Image": "agent-sandbox/x:1", "Labels": {"com.docker.compose.service": service}},
        "State": {"Status": "running", "ExitCode": 0, "Error": "", **state},
    }


def test_finds_containers_by_the_projects_label(docker: FakeDocker) -> None:
    extra = inspected("extra")
    proxy = inspected("proxy", Health={"Status": "unhealthy", "Log": [{"Output": "a\n"}, {"Output": "b\n"}]})
    agent = inspected("agent", Status="exited", ExitCode=3, Error="oom")
    docker.says("ps --all", out="1\n2\n3\n").says(
        "inspect --type container 1 2 3", out=json.dumps([extra, agent, proxy])
    )
    expected = (
        Container(
            id="proxy-012345",
            service="proxy",
            image="agent-sandbox/x:1",
            state="running",
            health="unhealthy",
            last_check="b",
        ),
        Container(
            id="agent-012345", service="agent", image="agent-sandbox/x:1", state="exited", exit_code=3, error="oom"
        ),
        Container(id="extra-012345", service="extra", image="agent-sandbox/x:1", state="running"),
    )
    assert containers(DOCKER, "app-1") == expected
    assert docker.calls[0] == "ps --all --quiet --filter label=com.docker.compose.project=app-1"


def test_leaves_out_a_container_that_is_removed_meanwhile(docker: FakeDocker) -> None:
    gone = "Error response from daemon: No such container: 2\n"
    docker.says("ps --all", out="1\n2\n").says(
        "inspect --type container 1 2", out=json.dumps([inspected("proxy")]), err=gone, code=1
    )
    assert [one.service for one in containers(DOCKER, "app-1")] == ["proxy"]


OURS = "/p/.devcontainer/docker-compose.yml"
EDITORS = "/tmp/x/docker-compose/docker-compose.devcontainer.containerFeatures-1795338814411-4e98.yml"  # noqa: S108


@each(("files", "by_editor"), [("", False), (OURS, False), (f"{OURS},{EDITORS}", True)])
def test_recognises_containers_that_an_editor_started_by_their_compose_files(*, files: str, by_editor: bool) -> None:
    found = inspected("agent")
    found["Config"]["Labels"]["com.docker.compose.project.config_files"] = files
    assert from_inspect(found).by_editor is by_editor


def test_finds_no_containers_of_a_project_that_is_down(docker: FakeDocker) -> None:
    docker.says("ps --all")
    assert containers(DOCKER, "app-1") == ()


@each(
    ("health", "unchecked"),
    [
        ({"Status": "unhealthy", "FailingStreak": 0}, True),
        ({"Status": "unhealthy", "FailingStreak": 1}, False),
        ({"Status": "unhealthy"}, False),
        ({"Status": "healthy", "FailingStreak": 0}, False),
        ({"Status": "starting", "FailingStreak": 0}, False),
        (None, False),
    ],
)
def test_an_unhealthy_container_without_a_failed_check_counts_as_unchecked(health: object, *, unchecked: bool) -> None:
    found = inspected("agent", Health=health)
    found["Config"]["Healthcheck"] = {"Interval": 30_000_000_000, "Timeout": 5_000_000_000}
    container = from_inspect(found)
    assert (container.unchecked, container.check_seconds, container.ready) == (
        unchecked,
        35,
        health is None or health == {"Status": "healthy", "FailingStreak": 0},
    )


def test_leftovers_are_listed_by_kind(docker: FakeDocker) -> None:
    docker.says("ps --all", out="app-1-proxy-1\napp-1-agent-1\n").says("network ls").says(
        "volume ls", out="app-1_state\n"
    )
    expected = {"containers": ("app-1-agent-1", "app-1-proxy-1"), "networks": (), "volumes": ("app-1_state",)}
    assert leftovers(DOCKER, "app-1") == expected


def test_reads_the_limits_in_force_and_omits_limits_that_are_not_set(docker: FakeDocker) -> None:
    limited = {
        "Memory": 4 << 30,
        "CpuQuota": 150_000,
        "CpuPeriod": 100_000,
        "PidsLimit": 100,
        "StorageOpt": {"size": "20g"},
    }
    agent = {**inspected("agent", OOMKilled=True), "HostConfig": limited, "RestartCount": 2}
    edited = {**inspected("edited"), "HostConfig": {"NanoCpus": 500_000_000, "PidsLimit": -1}}
    other = {**inspected("other"), "HostConfig": {"Memory": 0, "CpuQuota": 0, "PidsLimit": None}}
    docker.says("ps --all", out="1\n2\n3\n").says("inspect", out=json.dumps([agent, edited, other]))
    first, with_cpus, second = containers(DOCKER, "app-1")
    assert with_cpus.limits == {"cpus": "0.5"}
    assert (first.limits, first.out_of_memory, first.restarts) == (
        {"memory": "4g", "cpus": "1.5", "pids": "100", "disk": "20g"},
        True,
        2,
    )
    assert (second.limits, second.out_of_memory, second.restarts) == ({}, False, 0)


def labelled(project: str, service: str) -> dict[str, Any]:
    found = inspected(service)
    found["Config"]["Labels"]["com.docker.compose.project"] = project
    return found


def test_finds_the_container_of_a_service_by_its_name_with_one_command(docker: FakeDocker) -> None:
    docker.says("inspect --type container app-1-agent-1", out=json.dumps([labelled("app-1", "agent")]))
    (found,) = containers(DOCKER, "app-1", "agent")
    assert (found.id, len(docker.calls)) == ("agent-012345", 1)


@each(
    ("said", "code"),
    [
        ("[]", 1),
        (json.dumps([labelled("other", "agent")]), 0),
        (json.dumps([labelled("app-1", "proxy")]), 0),
        (json.dumps([{**inspected("agent"), "Config": {"Image": "x", "Labels": None}}]), 0),
    ],
)
def test_searches_by_label_if_no_container_of_the_service_has_the_usual_name(
    docker: FakeDocker, said: str, code: int
) -> None:
    docker.rules.clear()
    docker.says("inspect --type container app-1-agent-1", out=said, code=code).says("ps --all", out="7\n")
    docker.says("inspect --type container 7", out=json.dumps([inspected("agent")]))
    (found,) = containers(DOCKER, "app-1", "agent")
    assert (found.id, containers(DOCKER, "app-1", "proxy")) == ("agent-012345", ())
