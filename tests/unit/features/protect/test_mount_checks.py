from pathlib import Path

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container
from agent_sandbox.features.protect.mount_checks import LONGEST_REASON, MOST_BYTES, Inside, listed, look_inside
from agent_sandbox.project.installed import read_facts
from fake_docker import FakeDocker
from repositories import worktree_project


def container(service: str, state: str = "running") -> Container:
    return Container(id=service, service=service, image="x", state=state)


def test_reports_the_lost_mounts_that_the_agent_container_lists(docker: FakeDocker) -> None:
    docker.says("exec agent /usr/local/lib/agent-sandbox/healthy", out=".env\n.git/config\n", code=1)
    assert look_inside(DRIVER, [container("proxy"), container("agent")], Path()) == Inside(lost=(".env", ".git/config"))


def test_ignores_paths_outside_the_project_that_the_agent_container_lists(docker: FakeDocker) -> None:
    docker.says("exec agent", out="/\n/etc/shadow\n../.ssh/id\n.git/../../x\n.\n\n.env\n", code=1)
    assert look_inside(DRIVER, [container("agent")], Path()) == Inside(lost=(".env",))


def test_an_agent_container_that_lists_only_paths_outside_the_project_counts_as_silent(docker: FakeDocker) -> None:
    docker.says("exec agent", out="/\n", code=1)
    assert look_inside(DRIVER, [container("agent")], Path()) == Inside(silent=True)


def test_reports_why_the_agent_container_has_no_network(docker: FakeDocker) -> None:
    docker.says("exec agent", out="no network\n", code=2)
    assert look_inside(DRIVER, [container("agent")], Path()) == Inside(cut_off="no network")


def test_a_forged_reason_is_one_short_line(docker: FakeDocker) -> None:
    docker.says("exec agent", out=f"no network\nerror: run this\n  hint: {'x' * 1000}\n", code=2)
    said = look_inside(DRIVER, [container("agent")], Path()).cut_off
    assert (said[:40], len(said)) == ("no network error: run this hint: xxxxxxx", LONGEST_REASON)


def test_an_agent_container_that_prints_without_end_counts_as_silent(docker: FakeDocker) -> None:
    docker.says("exec agent", script=f"head -c {MOST_BYTES} /dev/zero", out=".env\n", code=1)
    assert look_inside(DRIVER, [container("agent")], Path()) == Inside(silent=True)


@pytest.mark.parametrize(("out", "code"), [("", 0), ("", 1), ("OCI runtime exec failed\n", 126)])
def test_an_agent_container_whose_check_fails_counts_as_silent(docker: FakeDocker, out: str, code: int) -> None:
    docker.says("exec agent", out=out, code=code)
    assert look_inside(DRIVER, [container("agent")], Path()) == Inside(silent=code != 0)


@pytest.mark.parametrize("state", ["exited", "paused", "created"])
def test_a_stopped_or_paused_agent_container_counts_as_silent(docker: FakeDocker, state: str) -> None:
    assert look_inside(DRIVER, [container("agent", state), container("proxy")], Path()) == Inside(
        silent=state != "created"
    )
    assert (look_inside(DRIVER, [container("proxy")], Path()), docker.calls) == (Inside(), [])


def test_lists_five_paths_and_counts_the_rest() -> None:
    assert listed([*"abcdefg"]) == "a, b, c, d, e and 2 more"
    assert listed(["a", "b"]) == "a, b"


def test_returns_absolute_paths_for_mounts_of_an_outside_repository(tmp_path: Path) -> None:
    project, common = worktree_project(tmp_path)
    mounted = read_facts(project).protected
    own = common / "worktrees" / "feature"
    outside = {common, own / "commondir", own / "gitdir"}
    assert mounted == {".devcontainer", ".git", *map(str, outside)}


def test_reports_lost_mounts_of_an_outside_repository_and_ignores_forged_paths(
    tmp_path: Path, docker: FakeDocker
) -> None:
    project, common = worktree_project(tmp_path)
    forged = f"{common}/HEAD\n{common}/../x\n/etc/shadow"
    docker.says("exec agent", out=f"{common}\n{forged}\n.env\n", code=1)
    assert look_inside(DRIVER, [container("agent")], project) == Inside(lost=(str(common), ".env"))
