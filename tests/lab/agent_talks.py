"""How each agent is made to answer one prompt, with a key that it never has and a fake model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

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
    # A variable with a placeholder, and the one in which the agent looks for it.
    key: tuple[str, ...] = ()

    def command(self, manifest: AgentManifest, prompt: str) -> tuple[str, ...]:
        """Return the command that has the agent answer one prompt, unattended as `run` starts it."""
        variables = (f"{name}={value}" for name, value in self.variables.items())
        words = (prompt if word == PROMPT else word for word in self.words)
        command = ("env", *variables, *manifest.started(asks=False), *words)
        if not self.key:
            return command
        here, there = self.key
        return ("sh", "-c", f'export {there}="${here}"; exec "$@"', "sh", *command)


OPENROUTER = {"OPENAI_BASE_URL": "https://openrouter.ai/api/v1", "OPENAI_MODEL": "openai/gpt-4o"}
ANTHROPIC = {"ANTHROPIC_BASE_URL": "https://api.anthropic.com", "ANTHROPIC_MODEL": "claude-sonnet-4-5"}


def aider(model: str, service: str) -> Talk:
    """Return how Aider talks with a model. It runs the file that the model writes as its test, which always fails."""
    test = ("--no-git", "--auto-test", "--test-cmd", "sh run.sh; exit 1")
    return Talk(words=(*test, "--model", model, "--message", PROMPT), service=service)


def hermes(provider: str, model: str, service: str) -> Talk:
    """Return how Hermes talks with a model."""
    return Talk(words=("--provider", provider, "--model", model, "-z", PROMPT), service=service)


def opencode(model: str, service: str) -> Talk:
    """Return how OpenCode talks with a model."""
    return Talk(words=("run", "--model", model, PROMPT), service=service)


def pi(provider: str, model: str, service: str) -> Talk:
    """Return how Pi talks with a model."""
    return Talk(words=("--provider", provider, "--model", model, "-p", PROMPT), service=service)


def qwen(kind: str, service: str, variables: Mapping[str, str], key: str = "") -> Talk:
    """Return how Qwen Code talks with a model; its shell has the placeholder in the variable `key`."""
    words = ("--auth-type", kind, "-p", PROMPT)
    return Talk(words=words, service=service, variables=variables, key=(key, "OPENAI_API_KEY") if key else ())


# By agent, and for an agent with several providers the first for those tests that try one.
TALKS = {
    "aider": (
        aider("gpt-4o", "openai"),
        aider("anthropic/claude-sonnet-4-5", "anthropic"),
        aider("openrouter/openai/gpt-4o", "openrouter"),
        aider("gemini/gemini-2.5-flash", "gemini"),
    ),
    "claude": (Talk(words=("-p", PROMPT), service="claude"),),
    "codex": (Talk(words=("exec", "--skip-git-repo-check", "--model", "gpt-5.1", PROMPT), service="codex"),),
    "copilot": (Talk(words=("-p", PROMPT), service="copilot"),),
    "factory": (Talk(words=("exec", PROMPT), service="factory"),),
    "gemini": (Talk(words=("--model", "gemini-2.5-flash", "-p", PROMPT), service="gemini"),),
    "hermes": (
        hermes("openrouter", "openai/gpt-4o", "openrouter"),
        hermes("anthropic", "claude-sonnet-4-5", "anthropic"),
        hermes("openai-api", "gpt-4o", "openai"),
    ),
    "opencode": (
        opencode("anthropic/claude-sonnet-4-5", "anthropic"),
        opencode("openai/gpt-4o", "openai"),
        opencode("openrouter/openai/gpt-4o", "openrouter"),
        opencode("google/gemini-2.5-flash", "gemini"),
    ),
    "pi": (
        pi("anthropic", "claude-sonnet-4-5", "anthropic"),
        pi("openai", "gpt-4o", "openai"),
        pi("openrouter", "openai/gpt-4o", "openrouter"),
        pi("google", "gemini-2.5-flash", "gemini"),
    ),
    "qwen": (
        qwen("openai", "openai", {"OPENAI_BASE_URL": "https://api.openai.com/v1", "OPENAI_MODEL": "gpt-4o"}),
        qwen("openai", "openrouter", OPENROUTER, key="OPENROUTER_API_KEY"),
        qwen("anthropic", "anthropic", ANTHROPIC),
        qwen("gemini", "gemini", {"GEMINI_MODEL": "gemini-2.5-flash"}),
    ),
}
# Agents without a fake model, and why.
SILENT = {"crush": "downloads its program from GitHub, which no test reaches"}
