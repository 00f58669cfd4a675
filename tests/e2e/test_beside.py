"""A service that cannot run: `up` prints why, `status` lists it, and the other services run on with their data."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from engine import run
from prepared import build_project
from real_stacks import Project, Projects, trust

BUILD = {"build": {"dockerfile": "service.Dockerfile"}}
# The image's user is root; services can name another user.
DOCKERFILE = "FROM debian:trixie-slim\nRUN mkdir /data && chown 1000:1000 /data\n"
KEPT = {
    **BUILD,
    "user": "1000:1000",
    "command": ["sh", "-c", "test -e /data/kept || date +%s%N >/data/kept; exec sleep infinity"],
    "volumes": ["data:/data"],
    "healthcheck": {"test": "test -e /data/kept", "interval": "1s"},
}
LOGS = "  hint: agent-sandbox logs bad shows the whole output\n"
ROOT = "  hint: a service has no capabilities, not even as root: name the user it runs as with `user` under `beside: "
PULL = "  hint: the Docker engine pulls it, not the sandbox: is its registry reachable from the Docker host?\n"
# For each: the service, the error of `up`, and the line in `status`.
BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "cannot be pulled": (
        {"image": "127.0.0.1:1/none:1"},
        'its image cannot be pulled: Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused\n'
        + PULL,
        "",
    ),
    "exits at once": (
        {**BUILD, "user": "1000:1000", "command": ["sh", "-c", "echo no license found >&2; exit 3"]},
        f"exited with code 3:\n  no license found\n{LOGS}",
        "beside  bad exited with code 3: agent-sandbox logs bad; then agent-sandbox up",
    ),
    "never gets healthy": (
        {
            **BUILD,
            "user": "1000:1000",
            "command": ["sleep", "infinity"],
            "healthcheck": {"test": "echo not yet; false", "interval": "1s", "retries": 1, "start_period": "1s"},
        },
        f"unhealthy:\n  not yet\n{LOGS}",
        "beside  bad unhealthy: agent-sandbox logs bad; then agent-sandbox up",
    ),
    "starts as root": (
        {**BUILD, "command": ["chown", "1000", "/etc/passwd"]},
        f"exited with code 1:\n  chown: changing ownership of '/etc/passwd': Operation not permitted\n{ROOT}bad`\n",
        "beside  bad exited with code 1: agent-sandbox logs bad; then agent-sandbox up",
    ),
}


def prepare() -> None:
    files = {"service.Dockerfile": DOCKERFILE, "sandbox.yaml": project_file()}
    build_project("claude", files={f".devcontainer/{name}": text for name, text in files.items()})


def project_file(**more: dict[str, Any]) -> str:
    """Return a project file with the working service and `more` services."""
    return json.dumps({"version": 1, "agents": ["claude"], "beside": {"kept": KEPT, **more}})


def declare(project: Project, **more: dict[str, Any]) -> None:
    """Write a project file with the working service and `more` services, and trust it."""
    (project.path / ".devcontainer" / "sandbox.yaml").write_text(project_file(**more))
    trust(project.path)


@pytest.fixture(scope="module")
def box(projects: Projects) -> Iterator[Project]:
    project = projects.make("beside", "claude")
    (project.path / ".devcontainer" / "service.Dockerfile").write_text(DOCKERFILE)
    declare(project)
    project.sandbox("up")
    yield project
    image = project.containers()["kept"]["Image"]
    project.sandbox("destroy", "--yes")
    run("docker", "image", "rm", "--force", image, check=False)


@pytest.mark.parametrize("kind", BAD)
def test_up_explains_a_service_that_cannot_run_and_the_others_keep_running(box: Project, kind: str) -> None:
    service, said, listed = BAD[kind]
    before = box.containers()["kept"]["Id"]
    data = run("docker", "exec", before, "cat", "/data/kept").stdout
    # With a new port, the sandbox's firewall gets new rules. If another service waits, compose starts nothing more.
    needs = {"exits at once": {"waits": {**KEPT, "volumes": [], "links": ["bad"]}}}
    declare(box, bad={**service, "expose": [5432]}, **needs.get(kind, {}))
    failed = box.sandbox("up", check=False)
    assert failed.returncode == 1
    assert failed.stderr.partition("error: ")[2] == f"bad: {said}"
    lines = box.sandbox("status").stdout.splitlines()
    assert [line for line in lines if line.startswith("beside  ")] == [listed] * bool(listed)
    assert box.sandbox("exec", "id", "-un").stdout == "dev\n"
    assert run("docker", "exec", before, "cat", "/data/kept").stdout == data


def test_all_containers_are_healthy_once_the_broken_service_is_removed(box: Project) -> None:
    declare(box)
    assert " is up; " in box.sandbox("up").stderr  # it has a new stack file
    found = box.containers()
    assert {*found} == {"proxy", "firewall", "agent", "kept", "firewall.kept"}
    assert {one["State"]["Health"]["Status"] for one in found.values()} == {"healthy"}
