"""The protocol of a driver: everything that observes or acts on an engine is behind it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from agent_sandbox.engines.container import Container, Intruders, StackFound, Usage
from agent_sandbox.engines.events import Tell, ignore
from agent_sandbox.engines.place import Place
from agent_sandbox.engines.plan import Plan, Planner, RunCommand
from agent_sandbox.engines.result import CheckResult
from agent_sandbox.host.command import Command
from agent_sandbox.problems import Problem
from agent_sandbox.project.installed import find_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.root import find_root

NOTHING: Mapping[str, str] = MappingProxyType({})
type Explain = Callable[[RunCommand, str], Iterable[Problem]]


class Driver(Protocol):
    """One engine: its planner, and all that observes or acts on it. Failures are raised as UserError."""

    @property
    def planner(self) -> Planner:
        """The pure planner, whose plans this driver executes."""

    def observe(self, project: str, service: str = "") -> tuple[Container, ...]:
        """Return the project's containers, or those of one service, including stopped ones, in start order."""

    def stacks(self) -> tuple[StackFound, ...]:
        """Return every stack of ours that the engine has, of any user, sorted by name."""

    def usage(self, found: Sequence[Container], *, disk: bool = True) -> Usage:
        """Measure the running containers, and with `disk` all volumes."""

    def intruders(self, found: Sequence[Container], project: str) -> Intruders:
        """Return what is connected to the stack's networks and namespaces but is not part of it."""

    def leftovers(self, project: str) -> dict[str, tuple[str, ...]]:
        """Return the names of everything that the project has on the engine, by kind."""

    def own_images(self, *, leaving: Collection[str] = ()) -> dict[str, int | None]:
        """Return our images that no container uses, except containers that are `leaving`, by their ids.

        With each, the bytes that it has alone; None: the engine did not say.
        """

    def images(self, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the images that exist, each with its digests.

        For an image of ours, that is the digest of the files it was built from; for others, those that registries gave.
        """

    def download_size(self, image: str) -> int | None:
        """Return the bytes that pulling an image downloads; None if its registry did not say."""

    def logs(self, of: Project | Container, *services: str, follow: bool = False, tail: int | None = None) -> Command:
        """Return the command that prints the output of a container, or of these services of a project, or of all."""

    def execute(self, plan: Plan, *, tell: Tell = ignore, explain: Explain | None = None) -> None:
        """Execute the steps in order; raise the UserError that `explain` makes of the first failure."""

    def spawn(
        self,
        place: Place,
        *argv: str,
        stdin: bool = False,
        tty: bool = False,
        env: Mapping[str, str] = NOTHING,
        user: str = "",
    ) -> Command:
        """Return the command that runs a program inside; every program of ours in a stack is run by one.

        The program reads an input only with `stdin`. `user` is `UID:GID`, by default the container's, and nobody for a
        helper. Secrets go to its stdin, never into `argv` or `env`.
        """

    def would_end(self, project: Project, agent: Container, *, build: Callable[[], None]) -> tuple[str, ...]:
        """Return the programs in the running agent container that a start would end, since it recreates that.

        If there are programs at all, it calls `build` first: another image is a reason to recreate the container.
        """

    def reprotect(self, agent: Container, digests: Mapping[str, str]) -> str:
        """Mount these files read-only again in the running agent container if they have the given SHA-256.

        Return why that failed, or an empty string. No process in the container ends.
        """

    def explain(self, said: str, *, doing: str, otherwise: Callable[[], Problem | None] = lambda: None) -> Problem:
        """Return the problem that a failed command's output is known to mean, or what `otherwise` finds.

        Without either, quote the output's last lines.
        """

    def host(self) -> "Host":
        """Return the machine on which the engine runs, for checks, and for what it can bound."""


class Host(Protocol):
    """The machine on which the engine runs, queried on first use."""

    @property
    def answers(self) -> bool:
        """Whether the engine answers."""

    @property
    def is_local(self) -> bool:
        """Whether the engine runs on this system and sees its files and routes."""

    @property
    def checks(self) -> "Sequence[Row]":
        """The driver's checks."""

    def require_disk_limit(self, volumes: Mapping[str, str]) -> None:
        """Raise UserError unless the engine can bound a container and these volumes, each by name with its size."""


@dataclass(kw_only=True)
class Machine:
    """This machine, its engine, and the checked project, if there is one."""

    path: Path | None
    cwd: Path
    driver: Driver

    @cached_property
    def host(self) -> Host:
        """The machine on which the engine runs."""
        return self.driver.host()

    @property
    def is_local(self) -> bool:
        """Whether the engine runs on this system and sees its files and routes."""
        return self.host.is_local

    @property
    def has_project(self) -> bool:
        """Whether there is a stack to check."""
        return find_root(self.path, cwd=self.cwd) is not None

    @cached_property
    def project(self) -> Project:
        """The project; raise UserError if it cannot be read."""
        return find_project(self.path, cwd=self.cwd)


class Stage(IntEnum):
    """The order in which a user would fix things."""

    ENGINE = 1  # the command, the engine, its machine
    PROJECT = 2  # what the project says
    FIT = 3  # whether the engine and its machine can do what the project says
    WORKSPACE = 4  # the protected paths
    START = 5  # what a start would need


class Row(Struct, frozen=True, kw_only=True):
    """A check and its preconditions."""

    name: str
    stage: Stage
    check: Callable[[Machine], CheckResult | Iterable[CheckResult]]
    engine: bool = False
    project: bool = False
