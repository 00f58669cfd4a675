"""What the engine reports about itself, queried on first use and cached, and the table of the driver's checks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.compose.disk_limit import require_disk_limit
from agent_sandbox.engines.compose.engine import Engine
from agent_sandbox.engines.protocol import Row
from agent_sandbox.host.process import Finished
from agent_sandbox.problems import UserError

KERNEL = Path("/proc/sys/kernel/osrelease")


@dataclass(kw_only=True)
class EngineHost:
    """The engine and the machine on which it runs."""

    engine: Engine

    @cached_property
    def versions(self) -> Mapping[str, Any]:
        """The versions of the client and, if it answers, of the engine."""
        answered = self.version_answer.out
        found: Mapping[str, Any] = read_json(answered) if answered.strip() else {}
        return found

    @cached_property
    def version_answer(self) -> Finished:
        """The command's output about its version; stderr says why the engine does not answer."""
        return self.engine.ask("version", "--format", "{{json .}}")

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """What the engine says of its machine; raise UserError if it does not answer."""
        answered = self.engine.answer("info", "--format", "{{json .}}", doing="asking the engine")
        found: Mapping[str, Any] = read_json(answered)
        return found

    @property
    def answers(self) -> bool:
        """Whether the engine answers."""
        try:
            return bool(self.versions.get("Server"))
        except UserError:
            return False

    @property
    def is_local(self) -> bool:
        """Whether the engine runs on this system and sees its files and routes."""
        return KERNEL.exists() and KERNEL.read_text().strip() == self.info.get("KernelVersion")

    @cached_property
    def networks(self) -> tuple[Mapping[str, Any], ...]:
        """All networks of the engine."""
        ids = self.engine.answer("network", "ls", "--quiet", doing="looking for networks").split()
        inspected = self.engine.answer("network", "inspect", *ids, doing="looking at networks") if ids else "[]"
        return tuple(read_json(inspected))

    @property
    def checks(self) -> tuple[Row, ...]:
        """The checks of what this engine supports."""
        from agent_sandbox.engines.compose.checks.table import checks_of  # noqa: PLC0415 - the table imports us

        return checks_of(self)

    def require_disk_limit(self, volumes: Mapping[str, str]) -> None:
        """Ask for the engine's storage driver, and inspect the volumes that exist."""
        require_disk_limit(self.engine, volumes)
