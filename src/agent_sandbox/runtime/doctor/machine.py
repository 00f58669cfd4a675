"""Facts for the checks, queried on first use and cached."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_sandbox.backends.project import Project
from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.compose.engine import answer, ask
from agent_sandbox.runtime.project.installed import find_project
from agent_sandbox.runtime.project.root import find_root


@dataclass(kw_only=True)
class Machine:
    """This machine, its Docker engine, and the checked project, if there is one."""

    path: Path | None
    cwd: Path

    @cached_property
    def versions(self) -> Mapping[str, Any]:
        """The versions of the client and, if it answers, of the engine."""
        answered = ask("version", "--format", "{{json .}}").out
        found: Mapping[str, Any] = read_json(answered) if answered.strip() else {}
        return found

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """The output of `docker info`; raise UserError if the engine does not answer."""
        found: Mapping[str, Any] = read_json(answer("info", "--format", "{{json .}}", doing="asking the engine"))
        return found

    @property
    def engine_answers(self) -> bool:
        """Whether the Docker engine answers."""
        try:
            return bool(self.versions.get("Server"))
        except UserError:
            return False

    @property
    def is_local(self) -> bool:
        """Whether the Docker engine runs on this system and sees its files and routes."""
        kernel = Path("/proc/sys/kernel/osrelease")
        return kernel.exists() and kernel.read_text().strip() == self.info.get("KernelVersion")

    @cached_property
    def networks(self) -> tuple[Mapping[str, Any], ...]:
        """All networks of the engine."""
        ids = answer("network", "ls", "--quiet", doing="looking for networks").split()
        inspected = answer("network", "inspect", *ids, doing="looking at networks") if ids else "[]"
        return tuple(read_json(inspected))

    @property
    def has_project(self) -> bool:
        """Whether there is a stack to check."""
        return find_root(self.path, cwd=self.cwd) is not None

    @cached_property
    def project(self) -> Project:
        """The project; raise UserError if it cannot be read."""
        return find_project(self.path, cwd=self.cwd)
