"""A project that another person made: no setting of it is used before the user trusts it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.project.render.formats.header import Provenance, provenance_of, stamped
from agent_sandbox.stack.naming import stack_name
from engine import agent_sandbox, run
from real_stacks import Project, Projects, trust

COMPOSE = ".devcontainer/docker-compose.yml"
EVIL = "version: 1\nservices: [claude]\ndomains: [evil.test]\n"


def bring_policy(path: Path) -> None:
    """Write a policy before `init`, as if it came with a clone."""
    (path / ".devcontainer").mkdir()
    (path / ".devcontainer" / "policy.yaml").write_text(EVIL)


@pytest.fixture(scope="module")
def cloned(projects: Projects) -> Project:
    """A project that came with a policy. The trust that the lab records is revoked."""
    project = projects.make("cloned", "claude", fill=bring_policy)
    project.sandbox("trust", "--revoke")
    return project


def mounted(project: Project) -> str:
    """Return the ids of the project's containers."""
    name = json.loads(project.sandbox("status", "--json").stdout)["project"]
    return run("docker", "ps", "--all", "--quiet", f"--filter=label=com.docker.compose.project={name}").stdout


def answered(project: Project, typed: bytes, *argv: str) -> tuple[int, str]:
    """Run our command with this input at a terminal; return its exit code and stderr."""
    controller, terminal = pty.openpty()
    os.write(controller, typed)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent_sandbox", *argv],
        cwd=project.path, stdin=terminal, capture_output=True, text=True, check=False,
    )  # fmt: skip
    os.close(terminal)
    os.close(controller)
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", [("up",), ("build",), ("shell",), ("exec", "true"), ("proxy", "restart")])
def test_commands_refuse_an_untrusted_project_without_a_terminal_and_print_a_hint(
    cloned: Project, command: tuple[str, ...]
) -> None:
    done = cloned.sandbox(*command, check=False)
    fingerprint = json.loads(cloned.sandbox("trust", "--json").stdout)["fingerprint"]
    assert done.returncode == 1
    assert f"  reaches       service claude: 10 rules\n{'any method evil.test':>36}\n" in done.stderr
    assert "agent: . as /workspace\n" in done.stderr
    hint = f"  hint: run agent-sandbox trust at a terminal; or, after a review, use --yes {fingerprint}"
    assert done.stderr.splitlines()[-1] == hint
    assert mounted(cloned) == ""


def test_answering_no_starts_nothing(cloned: Project) -> None:
    code, said = answered(cloned, b"n\n", "up")
    assert (code, "Trust this? [y/N] " in said, mounted(cloned)) == (1, True, "")


def test_the_fingerprint_of_other_settings_starts_nothing(cloned: Project) -> None:
    done = cloned.sandbox("up", "--yes", "0" * 64, check=False)
    assert (done.returncode, mounted(cloned)) == (1, "")
    assert "fingerprint mismatch: the settings are not those of" in done.stderr


def test_the_right_fingerprint_starts_the_stack_without_a_terminal(cloned: Project) -> None:
    fingerprint = json.loads(cloned.sandbox("trust", "--json").stdout)["fingerprint"]
    cloned.sandbox("up", "--yes", fingerprint)
    assert cloned.curl("https://api.anthropic.com/")[0] == 200
    before = cloned.containers()["agent"]["Id"]
    cloned.sandbox("up")
    cloned.compose("up", "--detach", "--wait")
    assert cloned.containers()["agent"]["Id"] == before


def test_reload_asks_for_trust_when_the_policy_widens_and_not_when_it_narrows(cloned: Project) -> None:
    cloned.policy.write_text("version: 1\nservices: [claude]\n")
    cloned.sandbox("proxy", "reload")
    cloned.policy.write_text("version: 1\nservices: [claude]\ndomains: [worse.test]\n")
    done = cloned.sandbox("proxy", "reload", check=False)
    assert (done.returncode, "  also reaches  any method worse.test\n" in done.stderr) == (1, True)
    assert "no rule allows host worse.test" in cloned.curl("http://worse.test/")[1]
    code, said = answered(cloned, b"y\n", "proxy", "reload")
    assert (code, "-domains: [evil.test]\n+domains: [worse.test]\n" in said) == (0, True)
    cloned.sandbox("proxy", "reload")


def test_up_shows_a_changed_compose_file_and_exec_keeps_using_the_trusted_stack(cloned: Project) -> None:
    file = cloned.path / COMPOSE
    before = file.read_text()
    body = before.partition("\n")[2].partition("\n")[2].replace("    init: true\n", "    init: true\n    pid: host\n")
    file.write_text(stamped(body, comment="#"))
    assert (provenance_of(file.read_text()), body in before) == (
        Provenance.OURS,
        False,
    )  # anybody can write a valid digest
    done = cloned.sandbox("up", check=False)
    assert (done.returncode, "\n+    pid: host\n" in done.stderr) == (1, True)
    assert cloned.sandbox("exec", "true").returncode == 0
    assert {one["HostConfig"]["PidMode"] for one in cloned.containers().values()} == {""}
    file.write_text(before)
    cloned.sandbox("up")


def test_commands_ignore_a_stack_that_the_agent_writes_to_a_subdirectory(cloned: Project) -> None:
    below = cloned.path / "vendor" / "lib"
    text = (cloned.path / COMPOSE).read_text().replace("name: cloned-", "name: other-")
    text = text.replace(stack_name("", str(cloned.path)).removeprefix("project"), stack_name("", str(below))[7:])
    cloned.exec("sh", "-ec", "mkdir -p vendor/lib/.devcontainer; cp .env vendor/lib/")
    (below / COMPOSE).write_text(text)
    (below / ".devcontainer" / "policy.yaml").write_text("version: 1\ndomains: ['*.evil.test']\n")
    status = json.loads(agent_sandbox("status", "--json", cwd=below).stdout)
    assert status["root"] == str(cloned.path)
    agent_sandbox("up", cwd=below)
    done = agent_sandbox("up", "--path", ".", cwd=below, check=False)
    assert (done.returncode, f"{below} asks for this:" in done.stderr) == (1, True)


def test_up_shows_a_compose_file_that_the_agent_changed_after_it_was_trusted(cloned: Project) -> None:
    env = cloned.path / ".env"
    before = env.read_text()
    more = cloned.path / "more.yml"
    more.write_text("services: {agent: {environment: {MORE: one}}}\n")
    os.chown(more, 1000, 1000)
    env.write_text(before.replace("docker-compose.yml", "docker-compose.yml:more.yml", 1))
    said = cloned.sandbox("up", check=False).stderr
    assert "more.yml, named by `COMPOSE_FILE` in .env or " in said
    trust(cloned.path)
    cloned.exec("sh", "-c", "echo 'services: {agent: {privileged: true}}' > more.yml")
    done = cloned.sandbox("up", check=False)
    assert (done.returncode, "+services: {agent: {privileged: true}}\n" in done.stderr) == (1, True)
    env.write_text(before)
    more.unlink()
    trust(cloned.path)


def test_revoked_trust_stops_up_and_the_running_stack_is_still_found(cloned: Project) -> None:
    assert f"{cloned.path}\n" in cloned.sandbox("trust", "--list").stdout
    cloned.sandbox("trust", "--revoke")
    assert cloned.sandbox("up", check=False).returncode == 1
    assert json.loads(cloned.sandbox("status", "--json").stdout)["policy"]["loaded_digest"] != ""
    assert cloned.sandbox("logs", "proxy").returncode == 0
    cloned.sandbox("down")
    assert mounted(cloned) == ""
