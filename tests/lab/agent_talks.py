"""How each agent is made to answer one prompt, with a fake key and a fake model."""

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
    """The words after an agent's command, one of them `PROMPT`; its key; the provider for `init`."""

    words: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    provider: str = ""
    # Whether the model can have it run a command.
    runs_commands: bool = True

    def command(self, manifest: AgentManifest, prompt: str) -> tuple[str, ...]:
        """Return the command that has the agent answer one prompt, unattended as `run` starts it."""
        keys = (f"{name}={value}" for name, value in self.keys.items())
        words = (prompt if word == PROMPT else word for word in self.words)
        return ("env", *keys, *manifest.started(asks=False), *words)


ANTHROPIC = {"ANTHROPIC_API_KEY": "sk-ant-placeholder"}
OPENAI = {"OPENAI_API_KEY": "sk-placeholder"}

TALKS = {
    "aider": Talk(
        words=("--model", "gpt-4o", "--message", PROMPT), keys=OPENAI, provider="openai", runs_commands=False
    ),
    "claude": Talk(words=("-p", PROMPT), keys=ANTHROPIC),
    "codex": Talk(
        words=("exec", "--skip-git-repo-check", "--model", "gpt-5.1", PROMPT), keys={"CODEX_API_KEY": "sk-placeholder"}
    ),
    "copilot": Talk(words=("-p", PROMPT), keys={"COPILOT_GITHUB_TOKEN": "github_pat_placeholder"}),
    "gemini": Talk(words=("--model", "gemini-2.5-flash", "-p", PROMPT), keys={"GEMINI_API_KEY": "placeholder"}),
    "hermes": Talk(
        words=("--provider", "openrouter", "--model", "openai/gpt-4o", "-z", PROMPT),
        keys={"OPENROUTER_API_KEY": "sk-or-placeholder"},
        provider="openrouter",
    ),
    "opencode": Talk(
        words=("run", "--model", "anthropic/claude-sonnet-4-5", PROMPT), keys=ANTHROPIC, provider="anthropic"
    ),
    "pi": Talk(
        words=("--provider", "anthropic", "--model", "claude-sonnet-4-5", "-p", PROMPT),
        keys=ANTHROPIC,
        provider="anthropic",
    ),
    "qwen": Talk(
        words=("--auth-type", "openai", "-p", PROMPT),
        keys={**OPENAI, "OPENAI_BASE_URL": "https://api.openai.com/v1", "OPENAI_MODEL": "gpt-4o"},
        provider="openai",
    ),
}
# Agents without a fake model, and why.
SILENT = {"factory": "asks Factory about the account before anything else, even with a key"}
