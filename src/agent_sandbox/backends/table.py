"""The table of backends; a new one is a module and a row."""

from typing import Protocol

from agent_sandbox.backends import compose
from agent_sandbox.backends.plan import Plan
from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import Build, Verb


class Backend(Protocol):
    """The interface of a backend module; all functions are pure."""

    def plan(self, project: Project, verb: Verb) -> Plan:
        """Return the steps that execute `verb` on the project's stack."""

    def build(self, verb: Build) -> Plan:
        """Return the steps that build images; they need no project."""


BACKENDS: dict[str, Backend] = {
    "compose": compose,
}
DEFAULT = "compose"
