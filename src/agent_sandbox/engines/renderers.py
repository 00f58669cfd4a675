"""The table of renderers: each writes a stack as the file that its backend reads."""

from importlib import import_module
from typing import Protocol

from agent_sandbox.agents.together import Agents
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.stack.model import Stack
from agent_sandbox.stack.workspace import Workspace

# The module of each renderer, with a `render_stack_file`. Only the chosen one is imported.
RENDERERS = {"compose": "agent_sandbox.engines.compose.render"}
DEFAULT = "compose"


class Renderer(Protocol):
    """Writes a stack as a file. The file is parsed back and compared with the stack."""

    def __call__(self, templates: Templates, stack: Stack, agents: Agents, workspace: Workspace) -> str:
        """Return the text of the stack file."""


def load_renderer(name: str = DEFAULT) -> Renderer:
    """Return a renderer by its name in the table."""
    renderer: Renderer = import_module(RENDERERS[name]).render_stack_file
    return renderer
