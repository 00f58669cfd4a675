"""How each agent is made to answer one prompt, with a key that it never has and a fake model."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_sandbox.agents.manifest import AgentManifest

PROMPT = "PROMPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """The words after an agent's command, one of them `PROMPT`; variables; and the service whose key is injected.

    A service that is not the agent's own is the provider that it uses.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    service: str
    # Whether the model can have it run a command.
    runs_commands: bool = True

    def command(self, manifest: AgentManifest, prompt: str) -> tuple[str, ...]:
        """Return the command that has the agent answer one prompt, unattended as `run` starts it."""
        variables = (f"{name}={value}" for name, value in self.variables.items())
        words = (prompt if word == PROMPT else word for word in self.words)
        return ("env", *variables, *manifest.started(asks=False), *words)


TALKS = {
    "aider": Talk(words=("--model", "gpt-4o", "--message", PROMPT), service="openai", runs_commands=False),
    "claude": Talk(words=("-p", PROMPT), service="claude"),
    "codex": Talk(words=("exec", "--skip-git-repo-check", "--model", "gpt-5.1", PROMPT), service="codex"),
    "copilot": Talk(words=("-p", PROMPT), service="copilot"),
    "gemini": Talk(words=("--model", "gemini-2.5-flash", "-p", PROMPT), service="gemini"),
    "hermes": Talk(
        words=("--provider", "openrouter", "--model", "openai/gpt-4o", "-z", PROMPT),
        service="openrouter",
    ),
    "opencode": Talk(words=("run", "--model", "anthropic/claude-sonnet-4-5", PROMPT), service="anthropic"),
    "pi": Talk(
        words=("--provider", "anthropic", "--model", "claude-sonnet-4-5", "-p", PROMPT),
        service="anthropic",
    ),
    "qwen": Talk(
        words=("--auth-type", "openai", "-p", PROMPT),
        variables={"OPENAI_BASE_URL": "https://api.openai.com/v1", "OPENAI_MODEL": "gpt-4o"},
        service="openai",
    ),
}
# Agents without a fake model, and why.
SILENT = {
    "crush": "downloads its program from GitHub, which no test reaches",
    "factory": "asks Factory about the account before anything else, even with a key",
}
