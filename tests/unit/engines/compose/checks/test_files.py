import json
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.engines.compose.checks import files
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.result import Status, fail, ok, warn
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.record import known, record_files
from agent_sandbox.project.render.paths import RECORD, STACK
from agent_sandbox.resources import data_root
from fake_docker import FakeDocker
from fake_stack import write_stack_file
from init_project import Init

AGENT = known_agents(data_root() / "templates")[0]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project as init creates it."""
    name = write_stack_file(tmp_path, AGENT)
    (tmp_path / ".env").write_text(f"COMPOSE_FILE=.devcontainer/docker-compose.yml\nCOMPOSE_PROJECT_NAME={name}\n")
    return read_project(tmp_path)


@pytest.mark.parametrize(
    ("text", "status", "what"),
    [
        (None, Status.WARN, "there is no .env: plain `docker compose` does not find the stack"),
        ("A=1\n", Status.WARN, "COMPOSE_FILE in .env does not name .devcontainer/docker-compose.yml"),
        (
            "COMPOSE_FILE=a.yml:.devcontainer/docker-compose.yml\nCOMPOSE_PROJECT_NAME=other\n",
            Status.FAIL,
            "COMPOSE_PROJECT_NAME in .env is other, the stack is ",
        ),
        (
            "COMPOSE_FILE=.devcontainer/docker-compose.yml\n",
            Status.FAIL,
            "COMPOSE_PROJECT_NAME in .env is not set, the stack is ",
        ),
    ],
)
def test_reports_a_missing_dotenv_and_one_that_does_not_name_the_stack(
    project: Project, text: str | None, status: Status, what: str
) -> None:
    file = project.root / ".env"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    found = files.dotenv(project, {})
    assert (found.status, found.what[: len(what)]) == (status, what)
    assert found.hint.startswith(f"agent-sandbox init {AGENT} ")


@pytest.mark.parametrize("dotenv", [True, False])
def test_a_dotenv_beside_the_compose_file_that_names_another_stack_is_reported(
    tmp_path: Path, init: Init, *, dotenv: bool
) -> None:
    project = read_project(init(tmp_path / "app", dotenv=dotenv).project)
    file = project.root / ".devcontainer" / ".env"
    file.write_text(f"COMPOSE_PROJECT_NAME={project.name}\n")
    assert files.dotenv(project, {}).status is Status.OK
    file.write_text("COMPOSE_PROJECT_NAME=other-1\n")
    what = (
        "COMPOSE_PROJECT_NAME in .devcontainer/.env is other-1: "
        "`docker compose --file .devcontainer/docker-compose.yml` acts on that stack"
    )
    hint = "remove .devcontainer/.env: nothing of agent-sandbox needs it"
    assert files.dotenv(project, {}) == fail("dotenv", what, hint)


def with_machine(docker: FakeDocker, *, memory: int, cpus: int) -> None:
    docker.says("info --format", out=json.dumps({"MemTotal": memory, "NCPU": cpus}))


def test_accepts_limits_that_fit_the_docker_host(docker: FakeDocker, project: Project) -> None:
    with_machine(docker, memory=16 << 30, cpus=2)
    assert files.limits(EngineHost(engine=DOCKER), project) == ok("limits", "memory 8g, cpus 4, pids 4096")


def test_warns_about_a_memory_limit_above_the_memory_of_the_docker_host(docker: FakeDocker, project: Project) -> None:
    with_machine(docker, memory=4 << 30, cpus=2)
    hint = f"agent-sandbox init {AGENT} --memory SIZE --cpus NUMBER, then agent-sandbox up"
    what = "the agent's limits are above what the Docker host has: memory 8g of 4.0 GiB"
    assert files.limits(EngineHost(engine=DOCKER), project) == warn("limits", what, hint)


def test_reports_a_cpu_limit_above_the_number_of_cpus_of_the_docker_host(docker: FakeDocker, project: Project) -> None:
    with_machine(docker, memory=16 << 30, cpus=2)
    compose = project.root / ".devcontainer" / "docker-compose.yml"
    text = compose.read_text().replace(
        f"{{agent: {AGENT},", f"{{agent: {AGENT}, title: x, ide: none, limits: {{cpus: 3}},"
    )
    compose.write_text(text)
    assert (
        files.limits(EngineHost(engine=DOCKER), project).what
        == "the agent's limits are above what the Docker host has: cpus 3 of 2"
    )


def test_believes_no_record_that_the_user_does_not_trust(docker: FakeDocker, tmp_path: Path, init: Init) -> None:
    with_machine(docker, memory=16 << 30, cpus=2)
    project = read_project(init(tmp_path / "app", dotenv=False).project)
    record = project.root / RECORD
    said = json.loads(record.read_text())
    forged = {**said, "dotenv": True, "limits": {**said["limits"], "memory": "1g"}}
    record.write_text(json.dumps(forged, indent=2) + "\n")
    assert known(record_files(project.root)) != known({STACK: (project.root / STACK).read_text()})
    assert files.limits(EngineHost(engine=DOCKER), project).what == "memory 8g, cpus 4, pids 4096"
    assert files.dotenv(project, {}).what.startswith(".env is left alone")


def test_reports_limits_that_the_engine_cannot_enforce(docker: FakeDocker, project: Project) -> None:
    held = {"MemTotal": 16 << 30, "NCPU": 4, "MemoryLimit": True, "CpuCfsQuota": False, "PidsLimit": False}
    docker.says("info --format", out=json.dumps(held))
    what = "this engine cannot limit cpus, pids: the agent may use all of the machine"
    assert files.limits(EngineHost(engine=DOCKER), project).what == what


def test_accepts_a_dotenv_that_names_the_stack(project: Project) -> None:
    assert files.dotenv(project, {}) == ok("dotenv", ".env names the stack")


def test_accepts_a_dotenv_that_does_not_name_the_stack_if_init_leaves_it_alone(tmp_path: Path, init: Init) -> None:
    project = read_project(init(tmp_path / "app", dotenv=False).project)
    alone = ok("dotenv", ".env is left alone; `docker compose --file .devcontainer/docker-compose.yml` uses the stack")
    assert files.dotenv(project, {}) == alone
    (project.root / ".env").write_bytes(b"COMPOSE_FILE=other.yml\nDB=\xff\n")
    assert files.dotenv(project, {}) == alone


def test_warns_about_a_project_name_in_dotenv_that_an_editor_would_use(tmp_path: Path, init: Init) -> None:
    project = read_project(init(tmp_path / "app", dotenv=False).project)
    (project.root / ".env").write_text("COMPOSE_PROJECT_NAME=mine\n")
    what = (
        "COMPOSE_PROJECT_NAME is mine: an editor starts the stack under this name, where agent-sandbox does not find it"
    )
    hint = (
        "name your own stack with `name:` in its compose file, and remove COMPOSE_PROJECT_NAME from .env or your shell"
    )
    assert files.dotenv(project, {}) == warn("dotenv", what, hint)
