import json
import os
from pathlib import Path

import pytest
import yaml

from agent_sandbox import __version__
from agent_sandbox.features.stack.commands.agents import completions
from agent_sandbox.host.agents import built_in, known_agents, load_manifest, remember_versions
from agent_sandbox.host.user_dirs import state_directory
from fake_docker import FakeDocker
from run_cli import Ask

MANIFEST = """\
name: mine
title: My agent
summary: An agent
install: {npm: {package: my-agent, version: 1.2.3}}
command: [my-agent]
version_command: [my-agent, --version]
unattended: {}
state: [.mine]
services: [anthropic]
"""


@pytest.fixture
def own(empty_project: Path) -> Path:
    """The manifest of a user's own agent."""
    file = empty_project.parent / "home" / ".config" / "agent-sandbox" / "agents" / "mine" / "agent.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(MANIFEST)
    return file


@pytest.fixture
def engine(docker: FakeDocker) -> FakeDocker:
    """An engine with two stacks, in which Claude Code and the user's own agent keep state."""
    sizes = {"a-1_state-claude": "1.5GB", "a-1_log": "1GB", "b-2_state-claude": "500MB", "b-2_local-claude": "1MB"}
    sizes |= {"b-2_state-mine..config.mine": "2kB", "other_state-codex": "7GB", "a-1_ca-private": "1B"}
    listed = "".join(f"{name.partition('_')[0]} {name}\n" for name in (*sizes, "b-2_ca-private"))
    volumes = [{"Name": name, "Size": size, "Labels": ""} for name, size in sizes.items()]
    return docker.says("volume ls", out=listed).says("ps --all").says("system df", out=json.dumps(volumes))


def test_agents_are_listed_with_versions_sources_and_the_size_of_their_state(
    own: Path, engine: FakeDocker, ask: Ask
) -> None:
    assert engine.rules
    remember_versions(state_directory(os.environ), {"claude": "999.0.0"})
    answer = ask("agents")
    heading, *lines = answer.out.splitlines()
    assert heading.split() == ["NAME", "VERSION", "NEWEST", "FROM", "STATE", "TITLE"]
    rows = {line.split()[0]: line.split() for line in lines}
    assert (answer.code, answer.err, rows.pop("~/.config/agent-sandbox/agents/mine/agent.yaml")[1:]) == (0, "", [])
    assert list(rows) == sorted(rows) == list(known_agents())
    assert rows["mine"] == ["mine", "1.2.3", "-", "npm", "2", "kB", "My", "agent"]
    assert rows["claude"] == ["claude", load_manifest("claude").version, "999.0.0", "npm", "2", "GB", "Claude", "Code"]
    assert rows["codex"][4:6] == ["0", "B"]
    assert max(map(len, answer.out.splitlines())) < 80
    assert own.exists()


@pytest.mark.parametrize(("words", "out", "code"), [("system df", "?", 0), ("volume ls", "", 1)])
def test_an_engine_that_does_not_answer_leaves_sizes_unknown(
    docker: FakeDocker, ask: Ask, words: str, out: str, code: int
) -> None:
    docker.says(words, out=out, code=code).says("volume ls").says("ps --all").says("system df", out="[]")
    assert {one["state_bytes"] for one in json.loads(ask("agents", "--json").out)["agents"]} == {None}


def test_json_output_lists_agents_with_all_fields(own: Path, engine: FakeDocker, ask: Ask) -> None:
    assert engine.rules
    said = json.loads(ask("agents", "--json").out)
    assert said["problems"] == []
    assert {one["name"]: one for one in said["agents"]}["mine"] == {
        "name": "mine",
        "title": "My agent",
        "summary": "An agent",
        "version": "1.2.3",
        "newest": None,
        "install": "npm",
        "file": str(own),
        "services": ["anthropic"],
        "providers": [],
        "state": [".mine"],
        "state_bytes": 2000,
    }
    assert [one["file"] for one in said["agents"] if one["name"] != "mine"] == [None] * (len(known_agents()) - 1)


def test_reports_an_invalid_manifest_and_lists_the_other_agents(own: Path, engine: FakeDocker, ask: Ask) -> None:
    assert engine.rules
    own.write_text(MANIFEST.replace("state:", "stat:"))
    answer = ask("agents")
    assert (answer.code, len(answer.out.splitlines())) == (1, len(known_agents()))
    assert answer.err == (
        f"error: {own}:1:1: `state` is missing\nerror: {own}:8:1: unknown key 'stat'\n  hint: did you mean `state`?\n"
    )


def test_check_rejects_an_own_agent_with_the_name_of_a_built_in_agent(own: Path, ask: Ask) -> None:
    own.parent.rename(own.parent.with_name("claude"))
    answer = ask("agents", "check", "claude")
    where = own.parent.with_name("claude") / own.name
    hint = "rename your folder, and the `name` in the file"
    assert answer.code == 1
    assert answer.err == f"error: {where}: `claude` is the name of a built-in agent\n  hint: {hint}\n"


def test_check_dry_run_prints_the_build_of_the_agent_image(own: Path, docker: FakeDocker, ask: Ask) -> None:
    assert own.exists()
    answer = ask("agents", "check", "mine", "--dry-run")
    *_, build, _ = answer.out.splitlines()
    assert f"--tag agent-sandbox/mine:{__version__}" in build
    assert "--build-arg AGENT_PATH=/opt/agents/mine/bin" in build
    assert (answer.code, docker.calls) == (0, [])


def test_check_reports_an_unknown_service(own: Path, docker: FakeDocker, ask: Ask) -> None:
    own.write_text(MANIFEST.replace("anthropic", "nonesuch"))
    answer = ask("agents", "check", "mine")
    assert (answer.code, docker.calls) == (1, [])
    assert answer.err == (
        f"error: {own}: unknown service `nonesuch`\n"
        "  hint: agent-sandbox policy services lists them; hosts go into the project's policy.yaml\n"
    )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("check",), "`check` needs the name of an agent"),
        (("list", "mine"), "`list` takes no name, but got `mine`"),
    ],
)
def test_reports_wrong_usage(own: Path, ask: Ask, words: tuple[str, ...], what: str) -> None:
    assert own.exists()
    answer = ask("agents", *words)
    assert (answer.code, answer.err) == (1, f"error: {what}\n  hint: agent-sandbox agents list | check NAME\n")


def test_init_makes_a_stack_for_an_own_agent(own: Path, empty_project: Path, ask: Ask) -> None:
    assert own.exists()
    assert ask("init", "mine").code == 0
    compose = yaml.safe_load((empty_project / ".devcontainer" / "docker-compose.yml").read_text())
    assert compose["services"]["agent"]["image"].startswith("agent-sandbox/mine:")
    assert "state-mine" in compose["volumes"]


def test_completes_actions_and_agents(own: Path) -> None:
    assert own.exists()
    assert completions() == ("list", "check")
    assert set(completions("check")) == {"mine", *(path.parent.name for path in built_in().glob("*/agent.yaml"))}
    assert completions("list") == ()
