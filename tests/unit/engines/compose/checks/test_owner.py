import os
import shlex
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.owner import owner
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.result import Status, fail, ok, warn
from agent_sandbox.images import Owner
from agent_sandbox.project import owners
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.owners import owner_of
from agent_sandbox.project.project import Project
from agent_sandbox.resources import data_root
from fake_docker import FakeDocker
from fake_stack import write_stack_file

AGENT = known_agents(data_root() / "templates")[0]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project as init creates it."""
    name = write_stack_file(tmp_path, AGENT)
    (tmp_path / ".env").write_text(f"COMPOSE_FILE=.devcontainer/docker-compose.yml\nCOMPOSE_PROJECT_NAME={name}\n")
    return read_project(tmp_path)


def with_engine(*security: str, local: bool = True) -> EngineHost:
    kernel = os.uname().release if local else "elsewhere"
    host = EngineHost(engine=DOCKER)
    host.info = {"KernelVersion": kernel, "SecurityOptions": list(security)}
    return host


def test_accepts_dev_with_the_uid_and_gid_of_the_projects_owner(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "belongs_to_root", lambda _: False)
    mine = owner_of(project.root)
    expected = ok("owner", f"dev is {mine.uid}:{mine.gid}, like the project's owner")
    assert owner(with_engine("name=seccomp,profile=builtin"), project) == expected


def test_fails_if_the_files_belong_to_another_owner_than_dev(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "owner_of", lambda _: Owner(uid=501, gid=20))
    found = owner(with_engine(), project)
    assert (found.status, found.what.partition(",")[0]) == (Status.FAIL, "the files belong to 501:20")


@pytest.mark.parametrize(("option", "kind"), [("name=rootless", "rootless"), ("name=userns", "userns-remap")])
def test_warns_that_the_uid_of_dev_is_unknown_until_the_stack_runs_if_users_are_mapped(
    project: Project, docker: FakeDocker, option: str, kind: str
) -> None:
    docker.says("ps --all")
    what = f"this Docker engine maps users ({kind}): the uid of dev on the host is known once the stack runs"
    expected = warn("owner", what, "agent-sandbox up, then agent-sandbox doctor")
    assert owner(with_engine(option), project) == expected


def test_accepts_the_owner_if_the_engine_runs_on_another_kernel(project: Project) -> None:
    assert owner(with_engine(local=False), project).status is Status.OK


def test_fails_if_the_project_belongs_to_root(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "belongs_to_root", lambda _: True)
    mine = owner_of(project.root)
    what = f"the files belong to root, but dev inside is {mine.uid}:{mine.gid}: the agent can only read them"
    own = f"chown -R {mine.uid}:{mine.gid} {shlex.quote(str(project.root))}"
    hint = f"{own}, then agent-sandbox trust, which asks about the new owner"
    assert owner(with_engine("name=seccomp,profile=builtin"), project) == fail("owner", what, hint)
