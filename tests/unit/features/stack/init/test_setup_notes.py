from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.stack.init.initialise import prepare
from agent_sandbox.features.stack.init.setup_notes import NOT_IN_SUBMODULES, readable_dotenv
from agent_sandbox.host.git.worktree import SUBDIRECTORY
from agent_sandbox.stack.limits import GIB
from init_project import init_options
from repositories import bare, repository, worktree


def test_reports_protected_paths_that_no_longer_exist(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    prepare(init_options(tmp_path), {}).write()
    (tmp_path / ".vscode").rmdir()
    assert prepare(init_options(tmp_path), {}).notes == (".vscode: no longer protected, because it is gone",)


def test_names_the_credentials_in_dotenv_that_the_agent_can_read(tmp_path: Path) -> None:
    text = "STRIPE_KEY=sk_live\nEMPTY_TOKEN=\nDEBUG=1\nexport DB_PASSWORD='x y'\n"
    (tmp_path / ".env").write_text(text)
    hide = "`mask: [.env]` in .devcontainer/sandbox.yaml hides it from the next `agent-sandbox up`"
    said = f"`.env` holds STRIPE_KEY, DB_PASSWORD, which the agent can read: {hide}"
    assert [*readable_dotenv(tmp_path, ())] == [said]
    assert [*readable_dotenv(tmp_path, (".env",))] == []
    (tmp_path / ".env").rename(tmp_path / "elsewhere")
    assert [*readable_dotenv(tmp_path, ())] == []
    (tmp_path / ".env").symlink_to("elsewhere")
    assert [*readable_dotenv(tmp_path, ())] == []


def test_reports_a_limit_above_what_this_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_sandbox.features.stack.init.setup_notes.machine", lambda: {"memory": GIB, "cpus": 1})
    assert prepare(init_options(tmp_path), {}).notes == ()
    (note,) = prepare(replace(init_options(tmp_path), limits={"memory": "2g", "cpus": "1"}), {}).notes
    assert note == "--memory 2g is more than this machine has (1.0 GiB), so it limits nothing"


def test_reports_why_git_does_not_work_in_a_subdirectory_of_a_repository(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "web").mkdir()
    prepared = prepare(init_options(tmp_path / "web"), {})
    why = f"this directory is part of the repository in {tmp_path}, which is not in the sandbox"
    assert prepared.notes == (f"git does not work inside: {why}; {SUBDIRECTORY.format(tmp_path)}",)


def test_reports_that_git_does_not_work_in_the_submodules_of_a_worktree(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    own = worktree(tmp_path / "feature", repository(tmp_path / "main"))
    (bare(own / "modules" / "lib") / "config").write_text("")
    assert NOT_IN_SUBMODULES in prepare(init_options(tmp_path / "feature"), {}).notes
