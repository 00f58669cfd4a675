"""What a backend wants done, as frozen steps: printed by `--dry-run`, compared by tests, carried out by `runtime`."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_sandbox.backends.verbs import Freshness
from agent_sandbox.filetree import FileTree


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildImage:
    """Build one image; `context` goes to the command's stdin as a tar. One with all of `labels` is current."""

    name: str
    target: str
    labels: Mapping[str, str]
    freshness: Freshness
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    context: FileTree = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """Run a program in the project's directory and wait for it; `purpose` is what a person is told meanwhile."""

    argv: tuple[str, ...]
    cwd: Path
    project: str
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Give the terminal to a program, for good: always the last step."""

    argv: tuple[str, ...]
    cwd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveImages:
    """Remove images of ours, but for those that a container is made of: that they stay is no failure.

    With `once_built` it is done only where the plan has built one.
    """

    argv: tuple[str, ...]
    once_built: bool


type Step = BuildImage | RunCommand | RemoveImages | HandOver
type Plan = tuple[Step, ...]


def describe(plan: Plan) -> str:
    """Return the plan as lines that a shell would take, each build with the condition it has."""
    return "\n".join(_line(step) for step in plan)


def _line(step: Step) -> str:
    command = shlex.join(step.argv)
    match step:
        case BuildImage(freshness=Freshness.OUTDATED):
            return f"{command}  # if {step.name} is missing or outdated"
        case RemoveImages(once_built=True):
            return f"{command}  # if an image was built"
        case _:
            return command
