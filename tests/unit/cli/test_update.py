import json
import os
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.backends.project import Project
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.host.known_versions import known_versions
from agent_sandbox.runtime.host.newest import NO_ANSWER_HINT
from agent_sandbox.runtime.host.user_dirs import state_directory
from agent_sandbox.runtime.init import facts
from agent_sandbox.runtime.project.installed import read_project
from agent_sandbox.runtime.project.trust_snapshot import look
from agent_sandbox.runtime.project.trust_store import open_store
from agent_sandbox.runtime.trust.expected_files import written_here
from agent_sandbox.runtime.trust.prompt import unseen_in
from fake_docker import FakeDocker
from fake_stack import with_containers
from run_cli import Ask

HASH = f"sha512-{'A' * 86}=="
PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
FOLDER = data_root() / "templates"
NOW = {name: load_manifest(FOLDER, name).version for name in (*PACKAGES, "aider")}
COMPOSE = ".devcontainer/docker-compose.yml"


@pytest.fixture
def npm(docker: FakeDocker) -> FakeDocker:
    """Put a fake npm beside the fake docker; its registry has a newer Claude Code and the same Codex CLI."""
    npm = FakeDocker(docker.folder, program="npm")
    for name, version in {"claude": "999.1.0", "codex": NOW["codex"]}.items():
        said = {"name": PACKAGES[name], "version": version, "dist.integrity": HASH}
        npm.says(f"view {PACKAGES[name]}@latest", out=json.dumps(said))
    return npm


@pytest.fixture
def stack(empty_project: Path, npm: FakeDocker, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a trusted project with three agents, whose stack is not running."""
    assert npm.rules
    monkeypatch.setattr(facts, "belongs_to_root", lambda _root: False)
    docker.says("image inspect").says("image prune").says("build").says("ps --all")
    ask("init", "claude", "codex", "aider")
    return empty_project


def text(project: Path) -> str:
    return (project / COMPOSE).read_text()


FOUND = f"""\
claude  {NOW["claude"]} -> 999.1.0
codex  {NOW["codex"]}  is the newest version
aider  {NOW["aider"]}  is locked with its dependencies; newer versions come with agent-sandbox
"""


def test_a_check_reports_and_changes_nothing(stack: Path, docker: FakeDocker, ask: Ask) -> None:
    before = text(stack)
    answer = ask("update", "--check")
    assert (answer.code, answer.out, answer.err) == (1, FOUND, "")
    assert known_versions(state_directory(os.environ)) == {"claude": "999.1.0", "codex": NOW["codex"]}
    assert ask("update", "--check", "codex", "aider").code == 0
    assert (text(stack), [call for call in docker.calls if "build" in call]) == (before, [])


def test_an_update_builds_first_then_pins_the_version_and_its_hash(stack: Path, docker: FakeDocker, ask: Ask) -> None:
    answer = ask("update")
    assert (answer.code, answer.out) == (0, FOUND)
    assert answer.err.endswith("updated claude: agent-sandbox up starts the new version\n")
    assert f'versions: {{claude: "999.1.0 {HASH}"}}' in text(stack)
    (image,) = {name for name in read_project(stack).images if "claude" in name}
    assert any(f"--tag {image} " in call for call in docker.calls)
    assert unseen_in(stack, os.environ) == ()
    again = ask("update", "--check", "claude")
    assert (again.code, again.out) == (0, "claude  999.1.0  is the newest version\n")


def test_a_pin_outlives_init_and_ends_when_agent_sandbox_ships_a_newer_version(
    stack: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("update")
    pinned = text(stack)
    assert ask("init").code == 0
    assert text(stack) == pinned
    monkeypatch.setattr("agent_sandbox.agents.pin.is_newer", lambda _version, _than: False)
    assert ask("init").code == 0
    assert "versions:" not in text(stack)


def test_a_running_stack_is_restarted(
    stack: Path, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []

    def start(project: Project, **_: object) -> int:
        started.append(project.root)
        return 0

    monkeypatch.setattr("agent_sandbox.cli.update.start", start)
    docker.rules[:] = [rule for rule in docker.rules if "ps --all" not in rule]
    with_containers(docker, agent="healthy")
    answer = ask("update", "claude")
    assert (answer.code, started) == (0, [stack])
    assert answer.err.endswith("updated claude; sign-in, settings and sessions are kept\n")


def test_a_registry_that_does_not_answer_changes_nothing(stack: Path, npm: FakeDocker, ask: Ask) -> None:
    before = text(stack)
    npm.rules.clear()
    npm.says("view", err="npm error code ECONNREFUSED\nnpm error connect\n", code=1)
    answer = ask("update")
    what = "error: claude: npm cannot look up @anthropic-ai/claude-code: ECONNREFUSED\n"
    assert (answer.code, answer.err) == (1, f"{what}  hint: {NO_ANSWER_HINT}\n")
    assert text(stack) == before


def test_a_build_that_fails_changes_nothing(stack: Path, docker: FakeDocker, ask: Ask) -> None:
    before = text(stack)
    docker.rules[:] = [rule for rule in docker.rules if "build" not in rule]
    docker.says("build", err="no space left on device", code=1)
    assert ask("update").code == 1
    assert text(stack) == before


def test_ctrl_c_in_the_build_changes_nothing(stack: Path, docker: FakeDocker, ask: Ask) -> None:
    before = text(stack)
    docker.rules[:] = [rule for rule in docker.rules if "build" not in rule]
    docker.says("build", script=f"kill -INT {os.getpid()}; sleep 5 & wait")
    answer = ask("update")
    assert (answer.code, answer.err.splitlines()[-1]) == (130, "interrupted: nothing was updated")
    assert text(stack) == before


def test_an_edited_stack_is_refused_before_anything_is_built(stack: Path, docker: FakeDocker, ask: Ask) -> None:
    (stack / COMPOSE).write_text(text(stack) + "# mine\n")
    open_store(os.environ).save(look(stack, os.environ))
    answer = ask("update")
    assert (answer.code, f"error: {COMPOSE}: it was edited; nothing was written\n" in answer.err) == (1, True)
    assert [call for call in docker.calls if call.startswith("build")] == []


def test_an_agent_that_the_project_does_not_have_is_an_error(stack: Path, ask: Ask) -> None:
    assert stack.exists()
    answer = ask("update", "gemini")
    assert (answer.code, answer.err) == (
        1,
        "error: no agent `gemini` in this project\n  hint: this project has claude, codex and aider\n",
    )


def test_a_version_that_a_clones_author_pinned_is_a_difference_to_what_we_write(stack: Path, ask: Ask) -> None:
    ours = text(stack)
    ask("update")
    assert text(stack) != ours
    assert written_here(stack, read_project(stack).agents, os.environ).files[COMPOSE] == ours
