import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.trust import trust_gate
from agent_sandbox.host import attached
from agent_sandbox.images import Owner, agent_name, proxy_name
from agent_sandbox.project import installed, owners
from agent_sandbox.project.installed import images_of, read_project
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.resources import data_root
from agent_sandbox.stack.containers import SESSION
from fake_docker import FakeDocker, docker
from fake_stack import trust
from in_memory import repositories_in_memory
from run_cli import ask, empty_project

__all__ = ["ask", "docker", "empty_project", "project", "repositories_in_memory", "up_to_date"]

AGENT = known_agents(data_root() / "templates")[0]
IMAGE = agent_name((AGENT,), Owner())
MOUNT = "{target: /workspace/.devcontainer, read_only: true}"
COMPOSE = f"""\
name: app-1
x-agent-sandbox: {{agent: {AGENT}, dev: "1000:1000"}}
services: {{proxy: {{image: "{proxy_name()}"}}, agent: {{image: "{IMAGE}", volumes: [{MOUNT}]}}}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a trusted project with a stack called app-1 and a valid policy."""
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text(stamped(COMPOSE, comment="#"))
    (tmp_path / ".devcontainer" / "policy.yaml").write_text(
        f"version: 1\nservices: [{AGENT}]\ndomains: [example.org]\n"
    )
    monkeypatch.chdir(tmp_path)
    # The short name keeps messages readable; the tests of `installed` cover that it is rejected.
    for module in (installed, trust_gate):
        monkeypatch.setattr(module, "require_own", lambda project: project)
    # The tests may run as root; the tests of `up` cover that case.
    monkeypatch.setattr(owners, "belongs_to_root", lambda _root: False)
    trust(tmp_path)
    return tmp_path


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the commands that get the terminal, without session names, and their directories if that matters."""
    lines: list[str] = []

    def run_attached(argv: Sequence[str], *, cwd: Path | None, pass_signal: Sequence[str], **_: object) -> int:
        line = " ".join((*argv, *(("in", str(cwd)) if cwd else ())))
        without = line.replace(f" --env {SESSION}={pass_signal[-1]}", "")
        assert without != line
        lines.append(without)
        return 0

    monkeypatch.setattr(attached, "run_attached", run_attached)
    return lines


@pytest.fixture
def up_to_date(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake all images of the project, built from the current files."""
    images = images_of(read_project(project))
    labels = ({"tags": [image.name], "labels": {"agent-sandbox.digest": image.digest}} for image in images)
    return docker.says("image inspect", out="\n".join(map(json.dumps, labels)))
