"""What VS Code's "Reopen in Container" does, by the command line that it is made of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from real_stacks import ROOT, run, trust

if TYPE_CHECKING:
    from real_stacks import Project, Projects


@pytest.fixture(scope="session")
def devcontainer(tmp_path_factory: pytest.TempPathFactory) -> tuple[str | Path, ...]:
    """The real client, at the version that the lock file names, without a network: it would ask its maker for news."""
    folder = tmp_path_factory.mktemp("devcontainer-cli")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "tests" / "e2e" / "devcontainer-cli" / name, folder)
    run("npm", "ci", "--no-audit", "--no-fund", cwd=folder)
    return ("unshare", "--net", folder / "node_modules" / ".bin" / "devcontainer")


def test_reopen_in_container_gives_the_same_stack(projects: Projects, devcontainer: tuple[str | Path, ...]) -> None:
    project = projects.make("in an ide", "claude", "--ide", "vscode")
    add_override(project)
    ours = Path(sys.executable).parent  # initializeCommand finds agent-sandbox on PATH
    path = f"{ours}:{os.environ['PATH']}"

    up = run(*devcontainer, "up", "--workspace-folder", project.path, env={"PATH": path})
    outcome = json.loads(up.stdout.splitlines()[-1])
    assert ("success", "dev", "/workspace") == (
        outcome["outcome"],
        outcome["remoteUser"],
        outcome["remoteWorkspaceFolder"],
    )

    inside = (*devcontainer, "exec", "--workspace-folder", project.path)
    whoami = run(*inside, "sh", "-c", "id -un; pwd; cat /proc/self/status", env={"PATH": path}).stdout
    assert whoami.startswith("dev\n/workspace\n")
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in whoami
    assert run(*inside, "curl", "-sS", "https://api.anthropic.com/ide", env={"PATH": path}).stdout.startswith('{"host"')
    denied = run(*inside, "curl", "-sS", "http://example.com/", env={"PATH": path}).stdout
    assert "example.com" in denied

    # plain compose and agent-sandbox see the very same containers
    assert "running" in project.compose("ps", "agent", "--format", "{{.State}}").stdout
    assert project.sandbox("exec", "id", "-un").stdout == "dev\n"
    note = "an editor started the agent container: recreating it; reload the editor's window afterwards\n"
    assert project.sandbox("up", "--quiet").stderr == note
    assert run(*inside, "id", "-un", env={"PATH": path}).stdout == "dev\n"


def agent_of(project: Project) -> str:
    return str(project.containers()["agent"]["Id"])


def test_devcontainer_uses_the_container_that_up_started(
    projects: Projects, devcontainer: tuple[str | Path, ...]
) -> None:
    project = projects.make("started by up", "claude")
    project.sandbox("up", "--quiet")
    agent = agent_of(project)
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    whoami = (*devcontainer, "exec", "--workspace-folder", project.path, "sh", "-c", "id -un; pwd")
    assert run(*whoami).stdout == "dev\n/workspace\n"
    up = run(*devcontainer, "up", "--workspace-folder", project.path, env=path)
    assert json.loads(up.stdout.splitlines()[-1])["containerId"] == agent
    project.compose("up", "--detach")
    assert agent_of(project) == agent


def add_override(project: Project) -> None:
    """Lead the egress of the editor's way in to the stand-in too."""
    config = project.path / ".devcontainer" / "devcontainer.json"
    text = config.read_text()
    assert '"docker-compose.yml"' in text
    config.write_text(
        text.replace('"docker-compose.yml"', f'["docker-compose.yml", {json.dumps(str(project.override))}]')
    )
    trust(project.path)


def test_devcontainer_json_is_valid_for_the_client(projects: Projects, devcontainer: tuple[str | Path, ...]) -> None:
    project = projects.make("read", "claude")
    done = subprocess.run(
        [*devcontainer, "read-configuration", "--workspace-folder", project.path],
        capture_output=True,
        text=True,
        check=True,
    )
    configuration = json.loads(done.stdout)["configuration"]
    assert ("agent", "dev", False) == (
        configuration["service"],
        configuration["remoteUser"],
        configuration["overrideCommand"],
    )
