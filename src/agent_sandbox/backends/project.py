"""What a backend has to know of a project that has a stack."""

from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.stack.workspace import Owner

# What compose puts on everything of a project.
PROJECT_LABEL = "com.docker.compose.project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A directory with a stack in it, as its files say."""

    root: Path
    name: str
    agent: str
    owner: Owner
    images: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def policy(self) -> Path:
        """The file that says what the agent may reach."""
        return self.root / ".devcontainer" / "policy.yaml"
