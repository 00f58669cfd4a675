"""`agent-sandbox destroy`."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import DryRun, ProjectPath, Quiet
from agent_sandbox.cli.terminal.output import emit_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.counted import counted
from agent_sandbox.engines.verbs import Destroy
from agent_sandbox.features.clones.forget_project import forget_project
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.secrets.sources.all_recipes import shared_recipes
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.features.stack.init.own_files import as_listed, remove_ours, without_ours
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import clone_at, clones_of, path_option
from agent_sandbox.project.installed import open_project, own_images
from agent_sandbox.project.project import Project
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.stack.engine import ENGINE

Images = Annotated[bool, Option(help="Also remove the images.")]
Files = Annotated[bool, Option(help="Also remove what `init` wrote into the project, with your policy.")]
Orphans = Annotated[bool, Option(help="Remove the stacks whose directory is gone or has another stack.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]


def destroy(  # noqa: PLR0913 - each is an option
    *,
    path: ProjectPath = None,
    images: Images = False,
    files: Files = False,
    orphans: Orphans = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Remove the stack's containers, networks and volumes, with the agent's state, secrets, audit log and CA.

    The project's files stay. `--files` removes those that `init` wrote, with the policy, and its lines in others.
    `--images` also removes the images, which other projects share, except those that a container uses. Clones stay.
    """
    if orphans:
        return _destroy_orphans(yes=yes, dry_run=dry_run, quiet=quiet)
    project = open_project(path, cwd=Path.cwd())
    clone = clone_at(project.root, os.environ)
    if clone and not dry_run:
        from agent_sandbox.features.clones.clones import report_unfetched  # noqa: PLC0415 - only for clones

        report_unfetched(clone)
    names = own_images(project) if images else ()
    left = without_ours(project) if files and not clone else {}
    plan = backend().plan(project, Destroy(images=names))
    marked = as_listed(project, left)
    if dry_run:
        execute(plan, dry_run=True)
        emit_lines([f"# files: {', '.join(marked)}"] if left else [])
        return DONE
    things = {**driver().leftovers(project.name), **({"files": marked} if left else {})}
    if images:
        things["images"] = tuple(driver().images(names))
    if not any(things.values()):
        forget_project(project, clone)
        if not quiet:
            say(f"nothing to remove: {project.name} has no resources on this {ENGINE}")
        return DONE
    option = f" --path {shlex.quote(str(path))}" if path else ""
    if not (yes or _confirmed(project, things, option)):
        say("nothing was removed")
        return FIXABLE
    execute(plan, quiet=quiet)
    if left:  # look again: the agent may have written until now
        remove_ours(project, {path: text for path, text in without_ours(project).items() if path in left})
    forget_project(project, clone, trust=bool(left))
    if not quiet:
        _report(project, things, keeps_policy=not (clone or left))
    return DONE


def _report(project: Project, things: Mapping[str, Sequence[str]], *, keeps_policy: bool) -> None:
    parts = (counted(len(found), kind.removesuffix("s")) for kind, found in things.items() if found)
    say(f"removed {project.name}: {', '.join(parts)}")
    _report_images(things.get("images", ()))
    if keeps_policy:
        _report_secrets(project)
    _report_clones(project)


def _destroy_orphans(*, yes: bool, dry_run: bool, quiet: bool) -> int:
    """Remove each orphaned stack after a question."""
    from agent_sandbox.features.stack import stack_list  # noqa: PLC0415 - only for --orphans

    found = stack_list.orphans(driver(), open_store(os.environ))
    if not (found or quiet):
        say(f"nothing to remove: every stack on this {ENGINE} has its directory, or its directory is unknown")
    for stack in found:
        project = stack_list.without_directory(stack.name)
        if not (yes or dry_run or _confirmed(project, driver().leftovers(stack.name), " --orphans")):
            say("nothing was removed")
            return FIXABLE
        execute(backend().plan(project, Destroy()), dry_run=dry_run, quiet=quiet)
        if not (dry_run or quiet):
            say(f"removed {stack.name}")
    return DONE


def _report_clones(project: Project) -> None:
    with suppress(UserError):  # other commands report a damaged record
        if clones := clones_of(project.root, os.environ):
            names, option = [one.name for one in clones], path_option(clones[0].root, os.environ, cwd=Path.cwd())
            say(f"its clones stay: {listed(names)}; to remove one: agent-sandbox destroy{option}")


def _report_secrets(project: Project) -> None:
    """List the removed secrets that the policy, which stays, still needs."""
    from agent_sandbox.policytools.unset_secrets import kinds_of  # noqa: PLC0415 - with the policy compiler

    with suppress(UserError):  # other commands report an invalid policy
        shared = {one.name for one in shared_recipes(project.root, os.environ)}
        gone = sorted(kinds_of(load_here(project.policy, os.environ)).keys() - shared)
        if gone:
            say(f"the policy still needs {', '.join(gone)}: agent-sandbox secret list says how to set them again")


def _report_images(found: Sequence[str]) -> None:
    kept = driver().images(found) if found else {}
    for name in found:
        say(f"  {name} {'kept: a container of another project uses it' if name in kept else 'removed'}")


def _confirmed(project: Project, things: Mapping[str, Sequence[str]], option: str = "") -> bool:
    if not sys.stdin.isatty():
        what = "this removes the agent's state, and cannot be confirmed without a terminal"
        raise UserError([Problem(where=project.name, what=what, hint=f"agent-sandbox destroy{option} --yes")])
    for kind, names in things.items():
        say(f"{kind}: {', '.join(names) or 'none'}")
    return agrees("Remove all of it?")
