"""The real command-line agents in their boxes hold whole conversations, through the proxy, with a stand-in model."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from real_stacks import STANDIN_ADDRESS

if TYPE_CHECKING:
    from real_stacks import Project, Projects


@pytest.fixture(scope="module")
def copilot(projects: Projects) -> Project:
    """A running stack of Copilot CLI's."""
    project = projects.make("app", "copilot")
    project.sandbox("up")
    return project


def ask_claude(project: Project, prompt: str) -> str:
    """Let Claude Code answer one prompt with all permissions on."""
    command = f"ANTHROPIC_API_KEY=sk-ant-placeholder claude -p {shlex.quote(prompt)} --dangerously-skip-permissions"
    return project.exec("sh", "-c", command).stdout


def ask_copilot(project: Project, prompt: str) -> str:
    """Let Copilot CLI answer one prompt with all permissions on."""
    command = f"COPILOT_GITHUB_TOKEN=github_pat_placeholder copilot -p {shlex.quote(prompt)} --allow-all-tools"
    return project.exec("sh", "-c", command).stdout


def test_claude_code_completes_a_conversation(claude: Project) -> None:
    assert "Hello from the stand-in." in ask_claude(claude, "say hi")
    assert any(request["path"].startswith("/v1/messages") for request in claude.internet.requests("api.anthropic.com"))


def test_claude_code_runs_a_command_that_is_allowed(claude: Project) -> None:
    said = ask_claude(claude, "run>>curl -sS https://api.anthropic.com/from-a-tool<<")
    assert '"path": "/from-a-tool"' in said
    assert "/from-a-tool" in [request["path"] for request in claude.internet.requests("api.anthropic.com")]


def test_a_command_of_claude_codes_that_is_denied_learns_why(claude: Project) -> None:
    said = ask_claude(claude, "run>>curl -sS https://denied.test/<<")
    assert "denied.test" in said
    assert ".devcontainer/policy.yaml" in said
    assert claude.internet.requests("denied.test") == []


def test_a_command_of_claude_codes_that_goes_direct_gets_nowhere(claude: Project) -> None:
    said = ask_claude(
        claude, f"run>>curl -sS --noproxy '*' --max-time 5 http://{STANDIN_ADDRESS}/direct; echo ended with $?<<"
    )
    assert "ended with 7" in said  # refused at once
    assert [event for event in claude.internet.events() if event.get("path") == "/direct"] == []


def test_copilot_cli_completes_a_conversation(copilot: Project) -> None:
    assert "Hello from the stand-in." in ask_copilot(copilot, "say hi")


def test_copilot_cli_runs_a_command(copilot: Project) -> None:
    said = ask_copilot(copilot, "run>>curl -sS https://denied.test/ | head -c 300<<")
    assert "RESULT:" in said
    assert copilot.internet.requests("denied.test") == []
