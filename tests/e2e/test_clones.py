"""A clone on a real engine: the agent commits in a volume, and its commits come back."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from real_stacks import agent_sandbox, proxy_image, run

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

HOST_GIT = ("git", "-c", "user.name=me", "-c", "user.email=me@example.com")
COMMIT = "git -c user.name=dev -c user.email=dev@example.com commit --quiet --all --message"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project whose own stack never runs, and a clone of it named fix-1."""
    proxy_image()
    folder = tmp_path / "cloned"
    folder.mkdir()
    run(*HOST_GIT, "init", "--quiet", "--initial-branch=main", cwd=folder)
    (folder / "a.txt").write_text("one\n")
    run(*HOST_GIT, "add", ".", cwd=folder)
    run(*HOST_GIT, "commit", "--quiet", "--message=first", cwd=folder)
    agent_sandbox("run", "claude", "--clone", "--name", "fix-1", "--", "--version", cwd=folder)
    yield folder
    agent_sandbox("destroy", "--path", "fix-1", "--yes", cwd=folder, check=False)


def test_commits_of_a_clone_come_back_and_nothing_of_the_project_is_mounted(project: Path) -> None:
    def sandbox(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return agent_sandbox(*argv, cwd=project, check=check)

    def inside(script: str) -> str:
        return sandbox("exec", "--path", "fix-1", "--", "sh", "-c", script).stdout

    (clone,) = (one for one in json.loads(sandbox("ls", "--json").stdout)["stacks"] if one["clone"])
    assert clone["clone"] == {"name": "fix-1", "project": os.path.realpath(project)}
    (agent,) = json.loads(run("docker", "inspect", f"{clone['name']}-agent-1").stdout)
    assert {one["Type"] for one in agent["Mounts"]} == {"volume"}

    assert inside("cat a.txt; git status --porcelain --branch") == "one\n## main\n"
    inside(f"echo two >>a.txt; {COMMIT} second; git switch --quiet --create topic; touch left")
    shown = sandbox("diff", "fix-1").stdout
    assert (shown.splitlines()[0], "+two\n" in shown) == ("main  1 commit", True)
    fetched = "box/fix-1/main  1 new commit\nbox/fix-1/topic  1 new commit\n  not committed: 1 file: left\n"
    assert sandbox("fetch").stdout == fetched
    subjects = run(*HOST_GIT, "log", "--format=%s", "box/fix-1/main", cwd=project).stdout
    assert (subjects, (project / "a.txt").read_text()) == ("second\nfirst\n", "one\n")

    inside(f"echo three >>a.txt; {COMMIT} third")
    sandbox("down", "--path", "fix-1")
    asked = sandbox("destroy", "--path", "fix-1", check=False)
    assert "not fetched: commits of topic: agent-sandbox fetch fix-1\n" in asked.stderr
    assert sandbox("fetch", "fix-1").stdout.startswith("box/fix-1/topic  1 new commit\n")  # while it is down
    sandbox("destroy", "--path", "fix-1", "--yes")
    assert run("docker", "volume", "ls", "--quiet", "--filter", f"name={clone['name']}").stdout == ""
    assert "this project has no clone" in sandbox("fetch", check=False).stderr
