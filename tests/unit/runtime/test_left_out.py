from pathlib import Path

import pytest

from agent_sandbox.runtime import places
from agent_sandbox.runtime.installed import read_project
from agent_sandbox.runtime.left_out import left_out


def test_a_layer_that_the_stack_was_made_without_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ORGANISATION", tmp_path / "organisation")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    folder, file = tmp_path / "agent-sandbox", tmp_path / ".devcontainer" / "docker-compose.yml"
    folder.mkdir()
    file.parent.mkdir()
    record = 'x-agent-sandbox: {agent: claude, dev: "1:1"}\nname: app-1\n'
    file.write_text(record)
    project = read_project(tmp_path)
    assert left_out(project, environ) == ()
    (folder / "policy.yaml").touch()
    mended = "agent-sandbox init claude, then agent-sandbox up"
    told = f"{folder}/policy.yaml is there, but the stack was made without it: {mended}"
    assert left_out(project, environ) == (told,)
    file.write_text(f"{record}services: {{proxy: {{volumes: [{{source: '{folder}'}}]}}}}")
    assert left_out(project, environ) == ()
