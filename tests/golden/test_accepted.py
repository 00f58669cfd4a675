"""Docker Compose reads the rendered files as intended, for unusual names and paths too."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.docker

NAMES = ["plain", "with space", "-dash", "it's", 'say "x"', "日本 ü", "$HOME", "${X:-y}", "{{x}}", "a:b", "a#b", "a\\b"]


def config(project: Path) -> dict[str, Any]:
    """Return the configuration that plain `docker compose` reads in a project's directory."""
    done = subprocess.run(
        ["docker", "compose", "config", "--format=json"], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.mark.parametrize("name", NAMES)
def test_compose_reads_the_rendered_paths_unchanged(name: str, tmp_path: Path) -> None:
    project, home = tmp_path / "projects" / name, tmp_path / "home" / name
    project.mkdir(parents=True)
    dotfiles = home / ".config" / "agent-sandbox" / "dotfiles"
    dotfiles.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-P", "-m", "agent_sandbox", "init", "claude", f"--path={project}"],
        check=True,
        capture_output=True,
        env={**os.environ, "HOME": str(home)},
    )
    mounts = config(project)["services"]["agent"]["volumes"]
    # Compose prints `$` as `$$`.
    assert {mount["target"]: mount["source"].replace("$$", "$") for mount in mounts if mount["type"] == "bind"} == {
        "/workspace": str(project),
        "/workspace/.devcontainer": str(project / ".devcontainer"),
        "/workspace/.env": str(project / ".env"),
        "/home/dev/.dotfiles": str(dotfiles),
    }
