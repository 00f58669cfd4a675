"""The real command-line agents hold whole conversations from their sandboxes, through the proxy, with a fake model.

Each change tries the agents whose stacks other tests use too, and one more from npm and from PyPI each. `make agents`
tries all.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from agent_logins import MARK, SIGN_INS, access_of, expired_inside
from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.resources import data_root
from agent_talks import TALKS, Talk
from real_stacks import STANDIN_ADDRESS, agent_sandbox, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_stacks import Project, Projects

TEMPLATES = data_root() / "templates"
ALL = known_agents(TEMPLATES)
TRIED = ALL if os.environ.get("EVERY_AGENT") else ("claude", "copilot", "codex", "hermes")


@pytest.mark.parametrize("name", TRIED)
def test_an_agent_says_its_version_as_dev_without_a_network(name: str) -> None:
    manifest = load_manifest(TEMPLATES, name)
    agent_sandbox("build", name)
    image = f"agent-sandbox/{name}:{agent_sandbox('--version').stdout.split()[-1]}"
    program, *words = manifest.version_command
    done = run("docker", "run", "--rm", "--network=none", f"--entrypoint={program}", image, *words)
    assert manifest.version in done.stdout + done.stderr
    assert run("docker", "run", "--rm", "--network=none", "--entrypoint=id", image, "-un").stdout == "dev\n"


@pytest.fixture(scope="module", params=[name for name in TALKS if name in TRIED])
def box(request: pytest.FixtureRequest, projects: Projects) -> Iterator[tuple[str, Project]]:
    """A running stack of an agent, whose policy allows one host more."""
    talk = TALKS[request.param]
    project = projects.make("app", request.param, *(("--provider", talk.provider) if talk.provider else ()))
    project.write_policy(project.policy.read_text().replace("\ndomains:\n", "\ndomains:\n  - allowed.test\n"))
    project.sandbox("up")
    yield request.param, project
    project.compose("down", "--volumes", "--timeout=0")


def ask(box: tuple[str, Project], prompt: str) -> str:
    """Let the agent answer one prompt, unattended."""
    name, project = box
    return project.exec(*TALKS[name].command(load_manifest(TEMPLATES, name), prompt)).stdout


def test_an_agent_completes_a_conversation(box: tuple[str, Project]) -> None:
    assert "Hello from the stand-in." in ask(box, "say hi")


def test_a_command_of_an_agents_reaches_what_the_policy_allows_alone_and_learns_why(box: tuple[str, Project]) -> None:
    name, project = box
    if not TALKS[name].runs_commands:
        return
    direct = f"curl -sS --noproxy '*' --max-time 5 http://{STANDIN_ADDRESS}/direct-{name}"
    through = f"curl -sS https://allowed.test/from-{name}; curl -sS https://denied.test/"
    said = ask(box, f"run>>{through}; {direct}; echo ended with $?<<")
    assert f"/from-{name}" in said
    assert ".devcontainer/policy.yaml" in said
    assert "ended with 7" in said  # refused at once
    assert f"/from-{name}" in [request["path"] for request in project.internet.requests("allowed.test")]
    assert project.internet.requests("denied.test") == []
    assert [event for event in project.internet.events() if event.get("path") == f"/direct-{name}"] == []


# In all files, and in what each process was started with. A pattern, so that the search does not find itself.
PATTERN = f"{MARK[:-1]}[{MARK[-1]}]"
SEARCH = f"""
cd /proc; for p in [0-9]*; do cat $p/environ $p/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -q {PATTERN} && echo $p; done
grep -rl --devices=skip --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev -e {PATTERN} / 2>/dev/null
true
"""


def held_inside(project: Project, service: str) -> list[str]:
    """Return where a container has a token of the host machine, as root sees it."""
    inside = ("exec", "-T", "--privileged", "--user", "root", service, "sh", "-c", SEARCH)
    return project.compose(*inside).stdout.splitlines()


def used(project: Project, host: str) -> set[str]:
    """Return the credentials that reached a host."""
    fields = (request["headers"] for request in project.internet.requests(host))
    return {text for one in fields for name, text in one.items() if name.lower() == "authorization"}


def test_an_agent_works_with_the_login_of_the_host_machine_and_never_has_it(
    box: tuple[str, Project], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, project = box
    if name not in SIGN_INS:
        return
    sign_in, manifest = SIGN_INS[name], load_manifest(TEMPLATES, name)
    command = Talk(words=sign_in.words).command(manifest, "say hi")
    monkeypatch.setenv(sign_in.folder, str(tmp_path))
    tokens = [sign_in.write(tmp_path, "first")]
    project.sandbox("login")
    assert "Hello from the stand-in." in project.exec(*command).stdout
    # Rotated on the host machine, and expired as far as the client inside knows: it refreshes, and the proxy answers.
    tokens.append(sign_in.write(tmp_path, "second"))
    project.sandbox("secret", "sync")
    path = f"/home/dev/{manifest.login.file if manifest.login else ''}"
    inside = json.loads(project.exec("cat", path).stdout)
    placeholder = access_of(inside)
    project.exec("sh", "-c", 'printf %s "$1" >"$2"', "sh", json.dumps(expired_inside(inside)), path)
    assert "Hello from the stand-in." in project.exec(*command).stdout
    assert used(project, sign_in.api).issuperset({f"Bearer {token}" for token in tokens})
    assert placeholder not in str(project.internet.events())
    assert where_tokens_are(project) == [("proxy", f"/state/run/secrets/{name}.login")]
    # Expired on the host machine, where no client can refresh it.
    sign_in.write(tmp_path, "third", seconds=-60)
    assert project.sandbox("secret", "sync", check=False).returncode == 1
    header = f"Authorization: Bearer {placeholder}"
    status, body = project.curl(f"https://{sign_in.api}{sign_in.path}", "-H", header)
    assert (status, "agent-sandbox secret sync" in body) == (502, True)


def where_tokens_are(project: Project) -> list[tuple[str, str]]:
    """Search the containers, what the engine says of them, and the project's directory for tokens."""
    containers = project.containers()
    said = {
        "config": project.compose("config").stdout,
        "inspect": str(containers),
        "logs": project.compose("logs").stdout,
        "audit log": str(project.traffic()),
    }
    files = [path for path in project.path.rglob("*") if path.is_file()]
    return [
        *((service, where) for service in containers for where in held_inside(project, service)),
        *(("engine", where) for where, text in said.items() if MARK in text),
        *(("project", str(path)) for path in files if MARK.encode() in path.read_bytes()),
    ]
