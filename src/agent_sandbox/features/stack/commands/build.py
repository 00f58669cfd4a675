"""`agent-sandbox build [AGENT...]`."""

import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import DryRun, ExtraCa, NoCache, ProjectPath, Quiet, Yes
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.resolve_services import agent_image, resolve_named
from agent_sandbox.features.stack.execute import backend, execute
from agent_sandbox.features.stack.init.build_inputs import build_of, images_to_build
from agent_sandbox.features.stack.init.project_file import is_outdated
from agent_sandbox.features.stack.update_stack import updated
from agent_sandbox.features.trust.trust_gate import find_checked_in, open_known, open_trusted, open_unasked
from agent_sandbox.host.agents import agents_beside
from agent_sandbox.project.dotenv import require_editor_name
from agent_sandbox.project.project import Project

completions = agents_beside
Agents = Annotated[
    list[str] | None,
    Argument(help="The agents to build images for; by default the project's.", metavar="AGENT"),
]

Editor = Annotated[
    bool,
    Option(help="Fail if an editor would use another project name; devcontainer.json uses this option."),
]


def build(  # noqa: PLR0913 - each is an option
    agents: Agents = None,
    *,
    path: ProjectPath = None,
    extra_ca: ExtraCa = None,
    no_cache: NoCache = False,
    editor: Editor = False,
    yes: Yes = "",
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Build the images that are missing or outdated.

    An image is outdated if it was built from other files than this version ships. Images contain Debian packages and
    the agent's program, at pinned versions. Only the base image is pulled.
    """
    if editor:
        project = find_checked_in(path, cwd=Path.cwd())
        require_editor_name(project.root, project.name, os.environ)

    def opened() -> Project:
        if dry_run:
            return open_unasked(path, cwd=Path.cwd())
        project = open_trusted(path, cwd=Path.cwd(), yes=yes)
        return updated(project, quiet=quiet) if editor or is_outdated(project.root) else project

    images = images_to_build(tuple(agents or ()), path, cwd=Path.cwd(), opened=opened)
    verb = build_of(images, extra_ca=extra_ca, anew=no_cache)
    try:
        execute(backend().build(verb), dry_run=dry_run, quiet=quiet, lists_current=True)
    except KeyboardInterrupt:
        say("interrupted: the current image was not built; the next build continues from the cache")
        return INTERRUPTED
    if editor and not dry_run:
        _resolve(open_known(path, cwd=Path.cwd()))
    return DONE


def _resolve(project: Project) -> None:
    """Resolve the services that the policy names: in a new clone, an editor starts with this command."""
    for note in resolve_named(project.policy, image=lambda: agent_image(project)):
        say(f"note: {note}")
