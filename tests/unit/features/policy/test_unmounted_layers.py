from pathlib import Path

import pytest

from agent_sandbox.features.policy.unmounted_layers import unmounted_layers
from agent_sandbox.host import user_dirs
from agent_sandbox.project.installed import read_project


def test_reports_a_layer_that_the_stack_was_made_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_dirs, "ORGANISATION", tmp_path / "organisation")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    folder, file = tmp_path / "agent-sandbox", tmp_path / ".devcontainer" / "docker-compose.yml"
    folder.mkdir()
    file.parent.mkdir()
    record = 'x-agent-sandbox: {agent: claude, dev: "1:1"}\nname: app-1\n'
    file.write_text(record)
    project = read_project(tmp_path)
    assert unmounted_layers(project, environ) == ()
    (folder / "policy.yaml").touch()
    told = f"{folder}/policy.yaml exists, but the stack was made without it: "
    assert unmounted_layers(project, environ) == (f"{told}agent-sandbox up",)
    assert unmounted_layers(project, environ, mending="do it") == (f"{told}do it",)
    file.write_text(f"{record}services: {{proxy: {{volumes: [{{source: '{folder}', target: /layers/user}}]}}}}")
    assert unmounted_layers(project, environ) == ()
