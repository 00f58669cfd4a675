"""A plan as frozen steps: printed by `--dry-run`, compared by tests, executed by a driver."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from agent_sandbox.engines.verbs import Build, Drop, Freshness, Verb
from agent_sandbox.filetree import FileTree
from agent_sandbox.project.project import Project


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


class RunCommand(Struct, frozen=True, kw_only=True):
    """Run a program in the project's directory and wait for it; `purpose` is shown meanwhile.

    `unless_ready` is a command to run first. If it succeeds, and then all containers of the project are ready, `argv`
    is not needed.
    """

    argv: tuple[str, ...]
    cwd: Path
    project: str
    purpose: str
    unless_ready: tuple[str, ...] = ()


class RemoveImages(Struct, frozen=True, kw_only=True):
    """Remove our images, except those that a container uses; keeping those is not a failure.

    With `once_built`, only if the plan has built an image.
    """

    argv: tuple[str, ...]
    once_built: bool


type Step = BuildImage | RunCommand | RemoveImages
type Plan = tuple[Step, ...]


class Planner(Protocol):
    """The pure part of a backend: it turns requests into plans, and neither asks nor does anything."""

    def plan(self, project: Project, verb: Verb) -> Plan:
        """Return the steps that execute `verb` on the project's stack."""

    def build(self, verb: Build) -> Plan:
        """Return the steps that build images; they need no project."""

    def drop(self, verb: Drop) -> Plan:
        """Return the steps that remove images; they need no project."""


def describe(plan: Plan) -> str:
    """Return the plan as shell commands, each with its condition as a comment."""
    return "\n".join(_line(step) for step in plan)


def _line(step: Step) -> str:
    command = shlex.join(step.argv)
    match step:
        case RunCommand(unless_ready=(_, *_)):
            return f"{shlex.join(step.unless_ready)}\n{command}  # unless all containers are ready"
        case BuildImage(freshness=Freshness.OUTDATED):
            return f"{command}  # if {step.name} is missing or outdated"
        case RemoveImages(once_built=True):
            return f"{command}  # if an image was built"
        case _:
            return command
