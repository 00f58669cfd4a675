"""`agent-sandbox destroy`."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import Destroy
from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import DryRun, ProjectPath
from agent_sandbox.cli.framework.typer_options import Quiet
from agent_sandbox.cli.steps.execute import backend, driver, execute
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.project.installed import open_project, own_images
from agent_sandbox.runtime.sources.recipes import recipes_of
from agent_sandbox.stack.engine import ENGINE

Images = Annotated[bool, typer.Option(help="Also remove the images.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def destroy(
    *,
    path: ProjectPath = None,
    images: Images = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Remove the stack's containers, networks and volumes, with the agent's state, secrets, audit log and CA.

    The project's files stay. `--images` also removes the images, which other projects share, except those that a
    container uses.
    """
    project = open_project(path, cwd=Path.cwd())
    names = own_images(project) if images else ()
    things = {} if dry_run else driver().leftovers(project.name)
    if images and not dry_run:
        things["images"] = tuple(driver().labels_of(names))
    if not (dry_run or any(things.values())):
        recipes_of(project.root, os.environ).forget()
        if not quiet:
            say(f"nothing to remove: {project.name} has no resources on this {ENGINE}")
        return DONE
    if not (yes or dry_run or _confirmed(project, things)):
        say("nothing was removed")
        return FIXABLE
    execute(backend().plan(project, Destroy(images=names)), dry_run=dry_run, quiet=quiet)
    if not dry_run:
        recipes_of(project.root, os.environ).forget()
    if images and not (dry_run or quiet):
        _report_images(things["images"])
    return DONE


def _report_images(found: Sequence[str]) -> None:
    kept = driver().labels_of(found) if found else {}
    for name in found:
        say(f"  {name} {'kept: a container of another project uses it' if name in kept else 'removed'}")


def _confirmed(project: Project, things: Mapping[str, Sequence[str]]) -> bool:
    if not sys.stdin.isatty():
        what = "this removes the agent's state, and there is no terminal to confirm it on"
        raise UserError([Problem(where=project.name, what=what, hint="agent-sandbox destroy --yes")])
    for kind, names in things.items():
        say(f"{kind}: {', '.join(names) or 'none'}")
    sys.stderr.write("Remove all of it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
