import json
import os
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.manifest import NpmPackage
from agent_sandbox.agents.pin import Pin
from agent_sandbox.features.stack.commands.update import NO_ANSWER_HINT, NO_NPM, NO_NPM_HINT, asking_npm, newest
from agent_sandbox.features.stack.init.project_edit import NEW
from agent_sandbox.features.trust.expected_files import written_here
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.host.agents import known_versions
from agent_sandbox.host.process import TIMED_OUT, Finished
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project import owners
from agent_sandbox.project.installed import images_of, read_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.record import parse_choices
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.resources import data_root
from fake_docker import FakeDocker
from fake_stack import with_containers
from run_cli import Ask
from table_tests import each

HASH = f"sha512-{'A' * 86}=="
PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
FOLDER = data_root() / "templates"
NOW = {name: load_manifest(FOLDER, name).version for name in (*PACKAGES, "aider")}
NEW_PIN = Pin(version="999.1.0", integrity=HASH)
COMPOSE, SHARED = ".devcontainer/docker-compose.yml", ".devcontainer/compose.yaml"
PACKAGE = NpmPackage(package="@x/agent", version="1.0.0")
ANSWER = {"name": "@x/agent", "version": "1.1.0", "dist.integrity": HASH}


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
    monkeypatch.setattr(owners, "belongs_to_root", lambda _root: False)
    docker.says("image inspect").says("image prune").says("build").says("ps --all")
    ask("init", "claude", "codex", "aider")
    return empty_project


def file(project: Path) -> Path:
    return project / ".devcontainer" / "sandbox.yaml"


def text(project: Path) -> str:
    return (project / COMPOSE).read_text()


FOUND = f"""\
claude  {NOW["claude"]} -> 999.1.0
codex  {NOW["codex"]}  is the newest version
aider  {NOW["aider"]}  is locked with its dependencies; newer versions come with agent-sandbox
"""


def test_check_reports_newer_versions_and_changes_nothing(stack: Path, docker: FakeDocker, ask: Ask) -> None:
    before = text(stack)
    answer = ask("update", "--check")
    assert (answer.code, answer.out, answer.err) == (1, FOUND, "")
    assert known_versions(state_directory(os.environ)) == {"claude": "999.1.0", "codex": NOW["codex"]}
    assert ask("update", "--check", "codex", "aider").code == 0
    assert (text(stack), [call for call in docker.calls if "build" in call]) == (before, [])


def test_update_builds_the_image_and_then_pins_the_version_with_its_hash(
    stack: Path, docker: FakeDocker, ask: Ask, tmp_path: Path
) -> None:
    before = text(stack)
    docker.rules[:] = [rule for rule in docker.rules if "build" not in rule]
    docker.says("build", script=f"cp {stack / COMPOSE} {tmp_path / 'during-build'}")
    answer = ask("update")
    assert (tmp_path / "during-build").read_text() == before != text(stack)
    assert (answer.code, answer.out) == (0, FOUND)
    assert answer.err.endswith("updated claude: agent-sandbox up starts the new version\n")
    assert (
        file(stack).read_text() == f'{NEW}agents: [claude, codex, aider]\nagent_versions:\n  claude: "999.1.0 {HASH}"\n'
    )
    assert "versions" not in (stack / SHARED).read_text()
    (image,) = {name for name in read_project(stack).images if "claude" in name}
    assert any(f"--tag {image} " in call for call in docker.calls)
    assert unseen_in(stack, os.environ) == ()
    again = ask("update", "--check", "claude")
    assert (again.code, again.out) == (0, "claude  999.1.0  is the newest version\n")


def test_update_builds_the_agents_on_the_packages_and_the_base_image_of_the_project(
    stack: Path, docker: FakeDocker, ask: Ask
) -> None:
    ask("init", "--with", "go", "--base-image", "mirror.test/debian:13")
    before = images_of(read_project(stack))
    assert ask("update").code == 0
    *same, last = images_of(read_project(stack))
    assert (same, last.name == before[-1].name) == ([*before[:-1]], False)
    built = [call.partition("--tag ")[2].split()[0] for call in docker.calls if "--tag " in call]
    assert built[-len(before) :] == [*(image.name for image in same), last.name]


def test_init_keeps_a_pin_until_agent_sandbox_ships_a_newer_version(
    stack: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("update")
    pinned = text(stack)
    assert ask("init").code == 0
    assert text(stack) == pinned
    monkeypatch.setattr("agent_sandbox.agents.together.is_newer", lambda _version, _than: False)
    assert ask("init").code == 0
    assert "versions:" not in text(stack)
    assert "agent_versions:" in file(stack).read_text()


def test_a_running_stack_is_restarted(
    stack: Path, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []

    def start(project: Project, **_: object) -> int:
        started.append(project.root)
        return 0

    monkeypatch.setattr("agent_sandbox.features.stack.commands.update.start", start)
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


def test_rejects_an_edited_compose_file_without_building(stack: Path, docker: FakeDocker, ask: Ask) -> None:
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


def test_update_keeps_the_rest_of_the_project_file(stack: Path, ask: Ask) -> None:
    before = f"{NEW}agents: [claude, codex, aider] # ours\nagent_versions: {{codex: 999.0.0}} # tested\nname: App\n"
    file(stack).write_text(before)
    open_store(os.environ).save(look(stack, os.environ))
    assert ask("update", "claude").code == 0
    now = before.replace("{codex: 999.0.0}", f'{{codex: 999.0.0, claude: "999.1.0 {HASH}"}}')
    assert file(stack).read_text() == now
    assert read_project(stack).pins == {
        "codex": Pin(version="999.0.0"),
        "claude": Pin(version="999.1.0", integrity=HASH),
    }


def test_removing_agent_versions_from_the_project_file_removes_the_pin(stack: Path, ask: Ask) -> None:
    ask("update")
    file(stack).write_text(f"{NEW}agents: [claude, codex, aider]\n")
    assert ask("init").code == 0
    assert read_project(stack).pins == {}


@pytest.fixture
def recorded(stack: Path) -> str:
    """Record a pin in the shared file, as an earlier version did, and return it."""
    pin = f'versions: {{claude: "999.1.0 {HASH}"}}'
    compose = stack / SHARED
    compose.write_text(compose.read_text().replace("{agents:", f"{{{pin}, agents:", 1))
    assert parse_choices(compose.read_text()).pins == {"claude": NEW_PIN}  # type: ignore[union-attr] # it is ours
    return pin


@pytest.mark.parametrize("options", [(), ("--memory", "4g")])
def test_init_moves_a_recorded_pin_into_the_project_file_only_with_options(
    stack: Path, recorded: str, ask: Ask, options: tuple[str, ...]
) -> None:
    assert recorded
    assert ask("init", "--force", *options).code == 0
    assert read_project(stack).pins == {"claude": NEW_PIN}
    in_file = file(stack).exists() and f'claude: "999.1.0 {HASH}"' in file(stack).read_text()
    assert in_file is bool(options)
    assert ("versions" in (stack / SHARED).read_text()) is not in_file


def test_a_pin_recorded_in_the_shared_file_is_a_difference_to_the_expected_files(
    stack: Path, recorded: str, ask: Ask
) -> None:
    ours = text(stack)
    assert recorded
    ask("init", "--force")
    assert text(stack) != ours
    assert written_here(stack, read_project(stack).agents, os.environ).files[COMPOSE] == ours


def answer(out: str = "", *, code: int = 0, err: str = "") -> Finished:
    return Finished(argv=("npm",), code=code, out=out, err=err)


def problem(found: Finished | None) -> Problem:
    with pytest.raises(UserError) as raised:
        newest("mine", PACKAGE, lambda _: found)
    (one,) = raised.value.problems
    return one


def test_runs_npm_in_the_root_directory_with_the_given_variables(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\necho \"$PWD $NODE_OPTIONS $*\" >{tmp_path}/asked\nprintf %s '{json.dumps(ANSWER)}'\n")
    npm.chmod(0o755)
    ask = asking_npm({"PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_OPTIONS": "none"})
    assert newest("mine", PACKAGE, ask) == Pin(version="1.1.0", integrity=HASH)
    asked = (tmp_path / "asked").read_text()
    assert asked == "/ none view @x/agent@latest name version dist.integrity --json\n"


def test_reports_that_npm_is_missing(tmp_path: Path) -> None:
    ask = asking_npm({"PATH": str(tmp_path)})
    assert problem(ask(PACKAGE)) == Problem(where="mine", what=NO_NPM, hint=NO_NPM_HINT)


@each(
    ("err", "why"),
    [
        ("npm ERR! code ENOTFOUND\nnpm ERR! a long story\n", "ENOTFOUND"),
        ("npm error code E404\n", "E404"),
        ("npm error code \x1b[31m\n", "\\x1b[31m"),
        ("killed\n", "exit code 1"),
    ],
)
def test_reports_why_the_npm_lookup_failed(err: str, why: str) -> None:
    what = f"npm cannot look up @x/agent: {why}"
    assert problem(answer(code=1, err=err)) == Problem(where="mine", what=what, hint=NO_ANSWER_HINT)


def test_reports_that_npm_did_not_answer_in_time() -> None:
    said = problem(answer(code=TIMED_OUT, err="no answer within 60 seconds"))
    what = "npm cannot look up @x/agent: no answer within 60 seconds"
    assert said == Problem(where="mine", what=what, hint=NO_ANSWER_HINT)


@each(
    "out",
    [
        "",
        "[]",
        "null",
        "[1]",
        json.dumps({**ANSWER, "version": "latest"}),
        json.dumps({**ANSWER, "version": "1.1.0 && x"}),
        json.dumps({**ANSWER, "version": "1.1.0\n"}),
        json.dumps({**ANSWER, "name": "@x/other"}),
        json.dumps({**ANSWER, "dist.integrity": "sha1-AAAA"}),
        json.dumps({"name": "@x/agent", "version": "1.1.0"}),
    ],
)
def test_rejects_an_answer_without_a_valid_name_version_and_sha512_hash(out: str) -> None:
    what = "npm's answer about @x/agent has no version with a sha512 hash"
    assert problem(answer(out)) == Problem(where="mine", what=what, hint=NO_ANSWER_HINT)
