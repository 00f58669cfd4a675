import json
from pathlib import Path

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import fail, ok, warn
from agent_sandbox.features.doctor import workspace
from agent_sandbox.features.protect.gaps import MADE
from agent_sandbox.features.protect.mount_checks import CONNECTED, LOOK, REPLACED, SHARING, STRANGER
from agent_sandbox.host.git.worktree import SUBDIRECTORY
from agent_sandbox.stack.containers import PROTECTED
from fake_docker import FakeDocker
from fake_stack import inspected, with_containers, with_inspected
from repositories import repository, worktree

COMPOSE = """\
name: app-1
x-agent-sandbox: {agent: example, dev: "1000:1000"}
services: {agent: {volumes: [{target: /workspace/.devcontainer, read_only: true}]}}
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a project that has a stack."""
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text(COMPOSE)
    return Machine(path=tmp_path, cwd=tmp_path, driver=DRIVER)


def test_lost_mounts_and_unexpected_networks_and_containers_are_failures(machine: Machine, docker: FakeDocker) -> None:
    agent, firewall = inspected("agent", "running"), inspected("firewall", "running")
    firewall["NetworkSettings"] = {"Networks": dict.fromkeys(("app-1_sandbox", "mine"))}
    docker.says("network inspect app-1_sandbox", out='{"9": {"Name": "db"}}')
    rows = f"{agent['Id']} /agent container:{firewall['Id']}\n{'3' * 64} /db container:{firewall['Id']}\n"
    docker.says("ps --quiet --no-trunc", out="1\n").says("inspect --type container --format", out=rows)
    with_inspected(docker, agent, firewall).says("exec agent0000000", out=".git/config\n", code=1)
    assert list(workspace.mounts(machine)) == [
        fail("mounts", f".git/config: {REPLACED}", LOOK),
        fail("mounts", CONNECTED, "docker network disconnect mine firewall0000"),
        fail("mounts", STRANGER, "docker network disconnect app-1_sandbox db"),
        fail("mounts", SHARING, "docker stop db"),
    ]


def test_an_agent_container_without_a_network_is_a_failure(machine: Machine, docker: FakeDocker) -> None:
    with_containers(docker, agent="running").says("exec agent0000000", out="the agent has no network\n", code=2)
    assert list(workspace.mounts(machine)) == [fail("mounts", "the agent has no network", "agent-sandbox up")]


def test_passes_if_no_path_is_unprotected(machine: Machine) -> None:
    assert list(workspace.names(machine)) == [ok("workspace", "what this machine acts on is read-only inside")]


def test_warns_about_directories_that_were_not_searched_for_repositories(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_sandbox.host.git.repositories.MAX_FOLDERS", 1)
    what = (
        ".devcontainer: not searched for repositories: the project has too many directories, or these cannot be listed"
    )
    hint = (
        "move large directories (dependencies, build output) out of the project or make these readable, "
        "then run it again; until then use git in them only inside the container"
    )
    assert list(workspace.names(machine)) == [warn("workspace", what, hint)]


def test_warns_about_unprotected_paths_with_the_reason_and_a_fix(machine: Machine) -> None:
    (machine.cwd / ".envrc").write_text("")
    what = f".envrc (runs when a shell on the host enters the directory, by direnv): {MADE}"
    hint = "check it, then run agent-sandbox init example, which protects it, and agent-sandbox up"
    assert list(workspace.names(machine)) == [warn("workspace", what, hint)]


def test_warns_about_a_case_insensitive_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.lexists", lambda path: path.with_name(path.name.lower()).exists())
    (result,) = workspace.names(machine)
    assert result.what.startswith("this disk takes `.GIT` for `.git`: ")


def test_upper_case_copy_does_not_mean_a_case_insensitive_disk(machine: Machine) -> None:
    (machine.cwd / ".DEVCONTAINER").mkdir()
    what = f".DEVCONTAINER (the sandbox itself: compose file, policy, editor settings): {MADE}"
    assert [result.what for result in workspace.names(machine)] == [what]


def test_reports_nothing_for_a_project_with_its_own_repository(machine: Machine) -> None:
    assert list(workspace.git(machine)) == []


def test_doctor_says_whether_the_repository_of_a_worktree_is_mounted(machine: Machine) -> None:
    project = machine.project.root
    (project / "main").mkdir()
    common = repository(project / "main").rename(project.parent / f"{project.name}.git")
    worktree(project, common)
    hint = "agent-sandbox init example mounts it, then agent-sandbox up"
    assert list(workspace.git(machine)) == [warn("git", f"does not work inside yet: {common} is not mounted", hint)]
    paths = (str(common), f"{common}/worktrees/feature/commondir")
    volumes = ", ".join(f"{{target: {path}, read_only: true}}" for path in paths)
    agent = f'volumes: [{volumes}], environment: {{{PROTECTED}: "{{}}"}}'
    text = COMPOSE.replace("volumes: [{target: /workspace/.devcontainer, read_only: true}]", agent)
    compose = project / ".devcontainer" / "docker-compose.yml"
    compose.write_text(text.replace('"{}"', json.dumps("\n".join(f"read {path}" for path in paths))))
    assert list(workspace.git(machine)) == [ok("git", f"this worktree uses {common} inside")]


def test_doctor_says_why_git_does_not_work_in_a_subdirectory_of_a_repository(machine: Machine) -> None:
    root = machine.project.root
    web = root / "web"
    (root / ".devcontainer").rename(root / "moved")
    web.mkdir()
    (root / "moved").rename(web / ".devcontainer")
    repository(root)
    hint = SUBDIRECTORY.format(root)
    why = f"does not work inside: this directory is part of the repository in {root}, which is not in the sandbox"
    assert list(workspace.git(Machine(path=web, cwd=web, driver=DRIVER))) == [warn("git", why, hint)]
