"""Update a stack that another version of agent-sandbox made, as `init` would."""

import os

from agent_sandbox import __version__
from agent_sandbox.backends.project import Project
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.render.reconcile import OnConflict
from agent_sandbox.runtime.init.initialise import InitOptions, prepare
from agent_sandbox.runtime.project.installed import foreign_images, open_project
from agent_sandbox.runtime.project.trust_snapshot import look
from agent_sandbox.runtime.project.trust_store import open_store
from agent_sandbox.runtime.trust.auto_trust import remember


def updated(project: Project, *, quiet: bool) -> Project:
    """Return the trusted project, updated if another version made its stack.

    Edited files and a protection that would end need a decision: then nothing is written, and `init` explains.
    """
    if not foreign_images(project):
        return project
    wish = InitOptions(
        agents=project.agents, path=project.root, title=None, ide=None, on_conflict=OnConflict.KEEP, detect=False
    )
    prepared = prepare(wish, os.environ)
    if prepared.conflicts or prepared.protection.lost:
        return project
    prepared.write()
    remember(open_store(os.environ), prepared, look(project.root, os.environ))
    if not quiet:
        files = ", ".join(change.path for change in prepared.changes if change.writes)
        say(f"updated {files} to agent-sandbox {__version__}")
    return open_project(project.root, cwd=project.root)
