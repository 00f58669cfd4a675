"""The real command-line agents hold whole conversations from their sandboxes, through the proxy, with a fake model.

Each change tries the agents whose stacks other tests use too, and one more from npm and from PyPI each. `make agents`
tries all.
"""

from __future__ import annotations

import json
import os
import secrets
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.resources import data_root
from agent_talks import TALKS
from real_stacks import STANDIN_ADDRESS, agent_sandbox, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from real_stacks import Project, Projects

TEMPLATES = data_root() / "templates"
ALL = known_agents(TEMPLATES)
TRIED = ALL if os.environ.get("EVERY_AGENT") else ("claude", "copilot", "codex", "hermes")
TALKED = [name for name in TALKS if name in TRIED]


@pytest.mark.parametrize("name", TRIED)
def test_an_agent_says_its_version_as_dev_without_a_network(name: str) -> None:
    manifest = load_manifest(TEMPLATES, name)
    agent_sandbox("build", name)
    image = f"agent-sandbox/{name}:{agent_sandbox('--version').stdout.split()[-1]}"
    program, *words = manifest.version_command
    done = run("docker", "run", "--rm", "--network=none", f"--entrypoint={program}", image, *words)
    assert manifest.version in done.stdout + done.stderr
    assert run("docker", "run", "--rm", "--network=none", "--entrypoint=id", image, "-un").stdout == "dev\n"


@pytest.fixture(scope="module")
def keys(together: Project) -> dict[str, str]:
    """Give the stack a key for each service that takes one, and return them by host."""
    found = {}
    for service in sorted({TALKS[name].service for name in TALKED} - {""}):
        host = auth_of(service).host
        # Of two services for one host, the first gets the key and the other one shares it.
        if host not in found:
            found[host] = secrets.token_urlsafe(32)
            together.sandbox("secret", "setup", service, piped=found[host])
    return found


@pytest.fixture(scope="module")
def together(projects: Projects) -> Iterator[Project]:
    """One running stack of all these agents, whose policy allows their providers and one host more."""
    project = projects.make("app", *TALKED)
    agents = {service for name in TALKED for service in load_manifest(TEMPLATES, name).services}
    providers = "".join(f"  - {one}\n" for one in sorted({TALKS[name].service for name in TALKED} - agents - {""}))
    policy = project.policy.read_text().replace("\n  # - github", f"\n{providers}  # - github", 1)
    project.write_policy(policy.replace("\ndomains:\n", "\ndomains:\n  - allowed.test\n"))
    project.sandbox("up")
    yield project
    project.compose("down", "--volumes", "--timeout=0")


@pytest.fixture(params=TALKED)
def box(request: pytest.FixtureRequest, together: Project, keys: dict[str, str]) -> tuple[str, Project]:
    """An agent, and the stack in which all of them are, with keys."""
    assert keys
    return request.param, together


def auth_of(service: str) -> Auth:
    """Return how a service takes its key."""
    declared = shipped_services()[service].spec.declared
    return next(auth for auth in declared.values() if isinstance(auth, Auth))


def ask(box: tuple[str, Project], prompt: str) -> str:
    """Let the agent answer one prompt, unattended."""
    name, project = box
    return project.sandbox("exec", "--", *TALKS[name].command(load_manifest(TEMPLATES, name), prompt)).stdout


def test_an_agent_completes_a_conversation_with_a_key_that_it_never_has(
    box: tuple[str, Project], keys: dict[str, str]
) -> None:
    name, project = box
    service = TALKS[name].service
    host = auth_of(service).host if service else ""
    before = len(project.internet.requests(host))
    assert "Hello from the stand-in." in ask(box, "say hi")
    if service:
        asked = [json.dumps(one["headers"]) for one in project.internet.requests(host)[before:] if "POST" in str(one)]
        assert asked
        assert [line for line in asked if keys[host] not in line] == []


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


def test_a_session_survives_other_agents_another_image_and_new_containers(
    together: Project, keys: dict[str, str]
) -> None:
    assert keys
    first = together.sandbox("run", "claude", "--", "-p", piped="run>>echo kept-$((40 + 2))<<")
    assert "RESULT: kept-42" in first.stdout
    together.sandbox("down")
    together.sandbox("init", "claude")  # alone, so from another image
    resumed = together.sandbox("run", "--resume", "--", "-p", piped="and what did it print?")
    assert "RESULT: kept-42" in resumed.stdout
    wrong = together.sandbox("run", TALKED[1], check=False)
    assert (wrong.returncode, "the stack of this project runs claude, not" in wrong.stderr) == (1, True)
