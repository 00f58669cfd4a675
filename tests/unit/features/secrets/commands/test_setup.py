import io
import json
import os
import sys
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.images import DIGEST_LABEL, proxy_name
from agent_sandbox.project.installed import images_of, open_project
from fake_docker import FakeDocker
from run_cli import Ask
from secret_setup import accepting_proxy, policy, told

VALUE = "correct-horse-battery"
TOLD = "the proxy sends {} to {}; in the sandbox, {} holds a placeholder for it"


@pytest.fixture
def running(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Fake a proxy that stores the value it gets and reloads its policy; put a key on stdin."""
    assert project.exists()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{VALUE}\n".encode())))
    return accepting_proxy(docker)


def test_shells_complete_the_services_with_a_key_or_a_token(project: Path, ask: Ask) -> None:
    assert project.exists()
    found = {line.partition("\t")[0] for line in ask("__complete", "secret", "setup", "").out.splitlines()}
    assert {"openai", "github", "gitlab"} <= found
    assert "rust" not in found
    assert not ask("__complete", "secret", "setup", "github", "").out


@pytest.mark.parametrize("word", ["openai", "openai-api"])
def test_stores_the_key_and_adds_the_service_with_its_secret_to_the_policy(
    running: FakeDocker, ask: Ask, project: Path, word: str
) -> None:
    policy(project, "version: 1\ndomains: [a.test]\n")
    answer = ask("secret", "setup", word)
    assert answer.code == 0
    assert answer.err.splitlines()[-1] == TOLD.format("openai.key", "api.openai.com", "OPENAI_API_KEY")
    assert policy(project) == "version: 1\ndomains: [a.test]\nservices:\n  - {name: openai, secret: openai.key}\n"
    assert told(running) == ["set openai.key --host api.openai.com --folder /state/secrets"]
    assert (running.folder / "told").read_text() == VALUE
    assert any("agent_sandbox.proxy reload" in call for call in running.calls)


def test_adds_the_key_to_an_existing_service_of_the_same_host(running: FakeDocker, ask: Ask, project: Path) -> None:
    policy(project, "version: 1\nservices:\n  - claude  # mine\n")
    assert ask("secret", "setup", "anthropic").code == 0
    assert policy(project) == "version: 1\nservices:\n  - {name: claude, secret: anthropic.key}  # mine\n"
    assert told(running) == ["set anthropic.key --host api.anthropic.com --folder /state/secrets"]


@pytest.mark.parametrize("given", ["own.key", "{name: own.key, on_existing_header: keep}"])
def test_keeps_the_name_of_a_secret_that_the_policy_already_injects(
    running: FakeDocker, ask: Ask, project: Path, given: str
) -> None:
    before = policy(project, f"version: 1\nservices: [{{name: gemini, secret: {given}}}]\n")
    answer = ask("secret", "setup", "gemini")
    assert (answer.code, answer.out) == (0, "own.key was replaced; the policy injects it already\n")
    assert policy(project) == before
    assert told(running) == ["set own.key --host generativelanguage.googleapis.com --folder /state/secrets"]


@pytest.mark.parametrize(
    ("words", "secret"), [(("openai",), "openai.key"), (("github", "--repo", "a/b"), "github.token")]
)
def test_stores_a_value_from_stdin_before_the_first_up(
    running: FakeDocker, ask: Ask, project: Path, words: tuple[str, ...], secret: str
) -> None:
    running.rules.clear()
    policy(project, "version: 1\ndomains: [a.test]\n")
    current = {image.name: image.digest for image in images_of(open_project(None, cwd=Path.cwd()))}
    labels = {"tags": [proxy_name()], "labels": {DIGEST_LABEL: current[proxy_name()]}}
    running.says("run --rm", script=f"cat >{running.folder / 'told'}")
    running.says("ps --all").says("image inspect", out=json.dumps(labels)).says("image prune")
    answer = ask("secret", "setup", *words)
    assert (answer.code, f"{secret} is stored, and agent-sandbox up loads the policy\n" in answer.err) == (0, True)
    assert (running.folder / "told").read_text() == VALUE
    assert secret in policy(project)


def test_stores_a_source_before_the_first_up(
    project: Path, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(project, "version: 1\nservices: [openrouter]\n")
    monkeypatch.setenv("OPENROUTER_API_KEY", VALUE)
    docker.says("ps --all")
    answer = ask("secret", "setup", "openrouter", "--from", "env:OPENROUTER_API_KEY")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        "openrouter.key will be fetched from its source by agent-sandbox up",
        TOLD.format("openrouter.key", "openrouter.ai", "OPENROUTER_API_KEY"),
    ]
    recipe = Recipe(name="openrouter.key", hosts=("openrouter.ai",), source="env:OPENROUTER_API_KEY")
    assert recipes_of(project, os.environ).load() == (recipe,)
    assert policy(project) == "version: 1\nservices: [{name: openrouter, secret: openrouter.key}]\n"


def test_rejects_a_service_without_a_key_and_changes_nothing(running: FakeDocker, ask: Ask, project: Path) -> None:
    before = policy(project)
    answer = ask("secret", "setup", "rust")
    assert (answer.code, answer.err) == (
        1,
        (
            "error: SERVICE: rust is not a service with an API key or a git token\n"
            "  hint: services with a key: anthropic, aws, bitbucket, claude, codeberg, codex, copilot, factory, "
            "gemini, github, gitlab, npm, openai, openrouter, signing; for all others, see agent-sandbox secret set "
            "--help\n"
        ),
    )
    assert (policy(project), told(running)) == (before, [])


def test_a_key_that_is_too_short_changes_nothing(
    running: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = policy(project)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"short\n")))
    answer = ask("secret", "setup", "openai")
    assert (answer.code, answer.err.splitlines()[0]) == (1, "error: openai.key: it has fewer than 8 characters")
    assert (policy(project), told(running)) == (before, [])
