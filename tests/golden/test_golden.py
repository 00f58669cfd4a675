"""The files that `init` renders, kept for reviewers to read: `scripts/golden` writes them again."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.policyfile import load_policy
from agent_sandbox.resources import data_root

GOLDEN = Path(__file__).parent
SCRIPT = GOLDEN.parents[1] / "scripts" / "golden"
AGENTS = tuple(agent for agent in known_agents(data_root() / "templates") if (GOLDEN / agent).is_dir())


def files(folder: Path) -> dict[str, str]:
    names = (folder / agent for agent in AGENTS)
    return {
        str(path.relative_to(folder)): path.read_text()
        for name in names
        for path in sorted(name.rglob("*"))
        if path.is_file()
    }


def test_the_golden_files_match_the_rendered_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True)
    assert files(GOLDEN) == files(tmp_path), "run scripts/golden and read the difference"


def test_every_golden_directory_belongs_to_a_known_agent() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name != "__pycache__") == list(
        AGENTS
    )
    assert len(AGENTS) >= 2


@pytest.mark.parametrize("agent", AGENTS)
def test_only_the_agent_container_of_the_project_mounts_its_home_volumes(agent: str) -> None:
    stack = yaml.safe_load((GOLDEN / agent / "devcontainer" / "docker-compose.yml").read_text())
    mounts = {
        (service, mount["source"]): mount["target"]
        for service, one in stack["services"].items()
        for mount in one.get("volumes", ())
        if mount["type"] == "volume"
    }
    home = {source for (_, source), target in mounts.items() if target.startswith("/home/")}
    assert {"home-cache", f"local-{agent}", "history"} <= home
    assert {service for service, source in mounts if source in home} == {"agent"}
    assert [stack["volumes"][source] for source in home] == [{"name": f"{stack['name']}_{source}"} for source in home]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_golden_policy_can_be_loaded(agent: str) -> None:
    load_policy(GOLDEN / agent / "devcontainer" / "policy.yaml")
