"""Update a stack that another version of agent-sandbox, project file or user setting made, as `init` would."""

import os
from pathlib import Path

from agent_sandbox import __version__
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.unmounted_layers import unmounted_layers
from agent_sandbox.features.stack.init.build_registries import mirrors_of
from agent_sandbox.features.stack.init.project_file import is_outdated
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.host.files import project_lock, read_text
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import foreign_images, open_project, read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PROJECT_FILE, STACK
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import open_store

MOUNTS, MIRRORS = "mount the policies of this machine", "use your mirror of packages"


def updated(project: Project, *, quiet: bool) -> Project:
    """Return the trusted project, updated if another version, project file or user setting made its stack.

    Edited files and a protection that would end need a decision: then nothing is written, and `init` explains.
    """
    edited = is_outdated(project.root)
    foreign = foreign_images(project)
    unmounted = unmounted_layers(project, os.environ)
    if not (edited or foreign or unmounted or _has_other_mirrors(project.root)):
        return project
    from agent_sandbox.features.stack.init.initialise import InitOptions, agents_of, prepare  # noqa: PLC0415 - as above
    from agent_sandbox.features.trust.auto_trust import remember  # noqa: PLC0415 - as above

    agents = agents_of(project.root, os.environ) or project.agents
    prepared = prepare(InitOptions(agents=agents, path=project.root), os.environ)
    files = ", ".join(prepared.texts)
    if prepared.conflicts or prepared.protection.lost:
        if edited:
            hint = f"agent-sandbox init shows what keeps {STACK} from being updated"
            raise UserError([Problem(where=str(project.root / PROJECT_FILE), what="not applied", hint=hint)])
        return project
    if unseen := unseen_in(project.root, os.environ):
        raise UserError([Problem(where=str(project.root), what=f"{', '.join(unseen)} changed", hint="run it again")])
    with project_lock(project.root, state_directory(os.environ)):
        prepared.write()
        remember(open_store(os.environ), prepared, look(project.root, os.environ))
    if files and not quiet:
        setting = MOUNTS if unmounted else MIRRORS
        why = f"match {PROJECT_FILE}" if edited else f"agent-sandbox {__version__}" if foreign else setting
        say(f"updated {files} to {why}")
    return open_project(project.root, cwd=project.root)


def _has_other_mirrors(root: Path) -> bool:
    """Return whether the user's configuration names a mirror that the stack's tools do not use yet."""
    said, own = read_facts(root).environment, (read_text(root, PROJECT_FILE) or "").lower()
    return any(said.get(name) != url and name.lower() not in own for name, url in mirrors_of(root, os.environ).items())
