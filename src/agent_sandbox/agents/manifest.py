"""What is known of one agent: `templates/<agent>/agent.yaml`, parsed and checked."""

import shlex
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SLUG = r"[a-z][a-z0-9-]{0,31}"
ENV_NAME = r"[A-Z_][A-Z0-9_]{0,63}"
# No value may break a line: it would end in a Dockerfile's argument, a compose file and an environment.
ONE_LINE = r"[^\x00-\x1f\x7f]+"

Slug = Annotated[str, Field(pattern=f"^{SLUG}$")]
OneLine = Annotated[str, Field(pattern=f"^{ONE_LINE}$", max_length=500)]
EnvName = Annotated[str, Field(pattern=f"^{ENV_NAME}$")]
Argv = Annotated[tuple[OneLine, ...], Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NpmPackage(_Model):
    """A package of npm at a pinned version."""

    package: Annotated[str, Field(pattern=r"^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$")]
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$")]


class Install(_Model):
    """Where the agent's program comes from."""

    npm: NpmPackage


class AgentManifest(_Model):
    """One agent: what is installed, how it is called, what it keeps, what its policy starts with."""

    name: Slug
    title: OneLine
    summary: OneLine
    install: Install
    command: Argv
    version_command: Argv
    state: Annotated[str, Field(pattern=r"^\.?[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)*$")]
    env: dict[EnvName, OneLine] = Field(default_factory=dict)
    services: tuple[Slug, ...]

    def build_arguments(self) -> dict[str, str]:
        """Return what the image's per-agent stage is told."""
        return {
            "AGENT_NAME": self.name,
            "NPM_PACKAGE": self.install.npm.package,
            "NPM_VERSION": self.install.npm.version,
            "VERSION_COMMAND": shlex.join(self.version_command),
            "AGENT_STATE": self.state,
        }
