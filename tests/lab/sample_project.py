"""A project as the tests of rendering see it."""

from msgspec.structs import replace

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.together import Agents
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.resources import data_root
from agent_sandbox.stack.build import StackImages, build_stack
from agent_sandbox.stack.model import Stack
from agent_sandbox.stack.recorded import Access, Ide
from agent_sandbox.stack.workspace import Protected, Workspace

FOLDER = data_root() / "templates"
TEMPLATES = Templates(FOLDER)
MANIFEST = load_manifest(FOLDER, "claude")
AGENTS = Agents((MANIFEST,))
WORKSPACE = Workspace(
    path="/home/me/app",
    title="app",
    ide=Ide.VSCODE,
    protected=(
        Protected(path=".devcontainer", why="the box itself"),
        Protected(path=".env", why="names the compose file"),
        Protected(path=".git", access=Access.PINNED, why="not to be replaced"),
    ),
    dotfiles="/home/me/.config/agent-sandbox/dotfiles",
)


def stack_of(workspace: Workspace = WORKSPACE) -> Stack:
    """Return the stack of a workspace."""
    return build_stack(AGENTS, workspace, StackImages(proxy="agent-sandbox/proxy:1", agent="agent-sandbox/claude:1"))


def with_title(title: str) -> Workspace:
    """Return the workspace under another title."""
    return replace(WORKSPACE, title=title)
