import os
from pathlib import Path

import pytest
import yaml

from agent_sandbox.host.agents import (
    VERSIONS,
    built_in,
    host_reads,
    known_agents,
    known_versions,
    load_manifest,
    own_agents,
    remember_versions,
)
from agent_sandbox.problems import Problem, UserError

BUILT_IN = next(name for name in known_agents() if load_manifest(name).install.npm)


@pytest.fixture
def own(fenced: Path) -> Path:
    """The folder of the user's own agents, with a copy of a built-in agent."""
    folder = fenced / ".config" / "agent-sandbox" / "agents"
    (folder / "mine").mkdir(parents=True)
    document = yaml.safe_load((built_in() / BUILT_IN / "agent.yaml").read_text())
    (folder / "mine" / "agent.yaml").write_text(yaml.safe_dump(document | {"name": "mine", "title": "Mine"}))
    return folder


def test_knows_the_users_own_agents_and_the_built_in_agents(own: Path) -> None:
    assert own_agents(os.environ) == (own,)
    assert set(known_agents()) == {"mine", *(path.parent.name for path in built_in().glob("*/agent.yaml"))}
    assert load_manifest("mine").title == "Mine"


def test_host_reads_includes_the_rows_of_the_users_own_agents(own: Path) -> None:
    file = own / "mine" / "agent.yaml"
    row = {"path": ".mine", "why": "hooks"}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"host_reads": [row]}))
    expected = {(row.path, row.why) for name in known_agents() for row in load_manifest(name).host_reads}
    assert {(row.path, row.why) for row in host_reads()} == expected
    assert ".mine" in {row.path for row in host_reads()}


def test_knows_no_agents_of_the_user_without_the_users_folder() -> None:
    assert own_agents(os.environ) == ()
    assert "mine" not in known_agents()


def test_rejects_a_manifest_that_an_agent_could_write(own: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    (dotfiles / ".devcontainer").mkdir(parents=True)
    (own / "mine").rename(dotfiles / "mine")
    (own / "mine").symlink_to(dotfiles / "mine")
    problem = Problem(
        where=str(own / "mine" / "agent.yaml"),
        what="this manifest is in a project, where an agent could name commands that run as you",
        hint="set XDG_CONFIG_HOME to a directory outside all projects",
    )
    for read in (lambda: load_manifest("mine"), host_reads):
        with pytest.raises(UserError) as raised:
            read()
        assert raised.value.problems == (problem,)


def test_rejects_a_users_agent_with_the_name_of_a_built_in_agent(own: Path) -> None:
    (own / "mine").rename(own / BUILT_IN)
    with pytest.raises(UserError) as raised:
        load_manifest(BUILT_IN)
    assert raised.value.problems == (
        Problem(
            where=str(own / BUILT_IN / "agent.yaml"),
            what=f"`{BUILT_IN}` is the name of a built-in agent",
            hint="rename your folder, and the `name` in the file",
        ),
    )


def test_names_a_manifest_that_cannot_be_read(own: Path) -> None:
    (own / "mine" / "agent.yaml").unlink()
    (own / "mine" / "agent.yaml").mkdir()
    with pytest.raises(UserError) as raised:
        load_manifest("mine")
    where = str(own / "mine" / "agent.yaml")
    assert raised.value.problems == (Problem(where=where, what="cannot be read: Is a directory"),)


def test_validates_the_manifests_of_the_users_own_agents(own: Path) -> None:
    (own / "mine" / "agent.yaml").write_text("name: mine\n")
    with pytest.raises(UserError) as raised:
        load_manifest("mine")
    assert "`install` is missing" in [problem.what for problem in raised.value.problems]


def test_remembering_a_version_keeps_the_versions_of_other_agents(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    assert known_versions(state) == {}
    remember_versions(state, {"one": "1.0.0", "two": "2.0.0"})
    remember_versions(state, {"one": "1.1.0"})
    assert known_versions(state) == {"one": "1.1.0", "two": "2.0.0"}


@pytest.mark.parametrize("text", ["?", "[]", '{"one": 1, "two": "2\\u001b[2J"}', "\0"])
def test_a_damaged_file_counts_as_empty_and_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / VERSIONS).write_text(text)
    assert known_versions(tmp_path) == {}
    remember_versions(tmp_path, {"one": "1.0.0"})
    assert known_versions(tmp_path) == {"one": "1.0.0"}


def test_remember_versions_ignores_a_failed_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remember_versions(tmp_path / "file", {"one": "1.0.0"})
    assert known_versions(tmp_path / "file") == {}
