"""The facts about a project with a stack that a backend needs."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from agent_sandbox.agents.pin import Pins
from agent_sandbox.stack.recorded import Owner


class Project(Struct, frozen=True, kw_only=True):
    """A directory with a stack, as its files describe it."""

    root: Path
    name: str
    agents: tuple[str, ...]
    pins: Pins = {}
    # Whether the user's own settings of the agents are copied.
    settings: bool = False
    owner: Owner
    images: tuple[str, ...]
    files: tuple[Path, ...]
    # The texts of the project file and of the files that it names, by their paths.
    made_of: Mapping[str, str] = {}
    # The image that the project's own are built on, "" for the machine's.
    base_image: str = ""
    # The path of the setup script, "" without one.
    setup: str = ""

    @property
    def init(self) -> str:
        """The command that writes the stack again."""
        return " ".join(("agent-sandbox init", *self.agents))

    @property
    def policy(self) -> Path:
        """The project's policy file."""
        return self.root / ".devcontainer" / "policy.yaml"
