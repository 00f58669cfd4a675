"""A project that somebody else has made: nothing of it is taken up before the user has said yes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.render.formats.header import Provenance, provenance_of, stamped
from agent_sandbox.stack.naming import stack_name
from engine import agent_sandbox, run
from real_stacks import trust

if TYPE_CHECKING:
    from pathlib import Path

    from real_stacks import Project, Projects

COMPOSE = ".devcontainer/docker-compose.yml"
EVIL = "version: 1\nservices: [claude]\ndomains: [evil.test]\n"


def bring_policy(path: Path) -> None:
    """Put a policy into a directory before `init`: as a clone has it."""
    (path / ".devcontainer").mkdir()
    (path / ".devcontainer" / "policy.yaml").write_text(EVIL)


@pytest.fixture(scope="module")
def cloned(projects: Projects) -> Project:
    """A project whose policy came with it. What the lab says yes to is taken back: nobody has looked at it."""
    project = projects.make("cloned", "claude", fill=bring_policy)
    project.sandbox("trust", "--revoke")
    return project


def mounted(project: Project) -> str:
    """Return all that the engine has of the project."""
    name = json.loads(project.sandbox("status", "--json").stdout)["project"]
    return run("docker", "ps", "--all", "--quiet", f"--filter=label=com.docker.compose.project={name}").stdout


def answered(project: Project, typed: bytes, *argv: str) -> tuple[int, str]:
    """Run our command at a terminal at which somebody types."""
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
def test_without_a_terminal_it_is_refused_and_says_what_to_do(cloned: Project, command: tuple[str, ...]) -> None:
    done = cloned.sandbox(*command, check=False)
    fingerprint = json.loads(cloned.sandbox("trust", "--json").stdout)["fingerprint"]
    assert done.returncode == 1
    assert f"  reaches       service claude: 10 rules\n{'any method evil.test':>36}\n" in done.stderr
    assert "agent: . as /workspace\n" in done.stderr
    hint = f"  hint: run agent-sandbox trust at a terminal; or, after a review, use --yes {fingerprint}"
    assert done.stderr.splitlines()[-1] == hint
    assert mounted(cloned) == ""


def test_a_person_who_says_no_starts_nothing(cloned: Project) -> None:
    code, said = answered(cloned, b"n\n", "up")
    assert (code, "Trust this? [y/N] " in said, mounted(cloned)) == (1, True, "")


def test_the_fingerprint_of_other_settings_starts_nothing(cloned: Project) -> None:
    done = cloned.sandbox("up", "--yes", "0" * 64, check=False)
    assert (done.returncode, mounted(cloned)) == (1, "")
    assert "fingerprint mismatch: the settings are not those of" in done.stderr


def test_a_fingerprint_is_enough_where_nobody_sits(cloned: Project) -> None:
    fingerprint = json.loads(cloned.sandbox("trust", "--json").stdout)["fingerprint"]
    cloned.sandbox("up", "--yes", fingerprint)
    assert cloned.curl("https://api.anthropic.com/")[0] == 200
    before = cloned.containers()["agent"]["Id"]
    cloned.sandbox("up")
    cloned.compose("up", "--detach", "--wait")
    assert cloned.containers()["agent"]["Id"] == before


def test_what_narrows_is_taken_unasked_and_what_widens_is_not(cloned: Project) -> None:
    cloned.policy.write_text("version: 1\nservices: [claude]\n")
    cloned.sandbox("proxy", "reload")
    cloned.policy.write_text("version: 1\nservices: [claude]\ndomains: [worse.test]\n")
    done = cloned.sandbox("proxy", "reload", check=False)
    assert (done.returncode, "  also reaches  any method worse.test\n" in done.stderr) == (1, True)
    assert "no rule allows host worse.test" in cloned.curl("http://worse.test/")[1]
    code, said = answered(cloned, b"y\n", "proxy", "reload")
    assert (code, "-domains: [evil.test]\n+domains: [worse.test]\n" in said) == (0, True)
    cloned.sandbox("proxy", "reload")


def test_a_stack_that_has_been_changed_is_shown_and_meanwhile_the_trusted_one_is_used(cloned: Project) -> None:
    file = cloned.path / COMPOSE
    before = file.read_text()
    body = before.partition("\n")[2].partition("\n")[2].replace("    init: true\n", "    init: true\n    pid: host\n")
    file.write_text(stamped(body, comment="#"))
    assert (provenance_of(file.read_text()), body in before) == (
        Provenance.OURS,
        False,
    )  # a digest that anybody can make
    done = cloned.sandbox("up", check=False)
    assert (done.returncode, "\n+    pid: host\n" in done.stderr) == (1, True)
    assert cloned.sandbox("exec", "true").returncode == 0
    assert {one["HostConfig"]["PidMode"] for one in cloned.containers().values()} == {""}
    file.write_text(before)
    cloned.sandbox("up")


def test_a_stack_that_the_agent_puts_below_is_not_taken_for_the_projects(cloned: Project) -> None:
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


def test_a_compose_file_that_the_agent_can_write_is_read_only_as_it_was_looked_at(cloned: Project) -> None:
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


def test_a_yes_can_be_taken_back_and_what_runs_is_still_found_by_its_name(cloned: Project) -> None:
    assert f"{cloned.path}\n" in cloned.sandbox("trust", "--list").stdout
    cloned.sandbox("trust", "--revoke")
    assert cloned.sandbox("up", check=False).returncode == 1
    assert json.loads(cloned.sandbox("status", "--json").stdout)["policy"]["loaded_digest"] != ""
    assert cloned.sandbox("logs", "proxy").returncode == 0
    cloned.sandbox("down")
    assert mounted(cloned) == ""
