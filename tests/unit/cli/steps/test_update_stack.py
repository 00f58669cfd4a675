import os
from pathlib import Path

import pytest

from agent_sandbox import __version__
from agent_sandbox.cli import build as module
from agent_sandbox.cli.build import build
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.steps.trust_gate import open_trusted
from agent_sandbox.cli.steps.update_stack import updated
from agent_sandbox.render.formats.header import stamped
from agent_sandbox.render.paths import POLICY, STACK
from agent_sandbox.runtime.project.installed import foreign_images
from agent_sandbox.runtime.trust.prompt import unseen_in
from fake_stack import trust
from init_project import AGENT
from run_cli import Ask


@pytest.fixture
def older(empty_project: Path, ask: Ask) -> Path:
    """Return a trusted project whose stack version 0.0.1 made."""
    assert ask("init", AGENT).code == 0
    file = empty_project / STACK
    body = file.read_text().replace(f":{__version__}", ":0.0.1")
    file.write_text(stamped(body.partition("\n\n")[2], comment="#"))
    trust(empty_project)
    return empty_project


def test_a_start_updates_the_stack_of_another_version_without_a_question(
    older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = open_trusted(None, cwd=older)
    assert len(foreign_images(project)) == 2
    policy = (older / POLICY).read_text()
    assert foreign_images(updated(project, quiet=False)) == ()
    assert capsys.readouterr() == ("", f"updated {STACK} to agent-sandbox {__version__}\n")
    assert unseen_in(older, os.environ) == ()
    assert (older / POLICY).read_text() == policy


def test_an_edited_stack_of_another_version_is_left_to_the_user(
    older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (older / STACK).open("a") as file:
        file.write("# mine\n")
    trust(older)
    before = (older / STACK).read_text()
    project = open_trusted(None, cwd=older)
    assert updated(project, quiet=False) == project
    assert capsys.readouterr() == ("", "")
    assert (older / STACK).read_text() == before


def test_a_stack_of_this_version_is_not_written(empty_project: Path, ask: Ask) -> None:
    assert ask("init", AGENT).code == 0
    before = (empty_project / STACK).stat()
    updated(open_trusted(None, cwd=empty_project), quiet=False)
    assert (empty_project / STACK).stat() == before


def test_what_an_editor_runs_first_updates_the_stack_too(
    older: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert older.exists()
    monkeypatch.setattr(module, "execute", lambda *_, **__: None)
    assert exit_code(build) == 1
    assert "the stack was made by another version of agent-sandbox" in capsys.readouterr().err
    assert exit_code(lambda: build(editor=True)) == 0
    assert capsys.readouterr().err == f"updated {STACK} to agent-sandbox {__version__}\n"
