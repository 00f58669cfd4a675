"""`agent-sandbox down`."""

import os
from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.cli.framework.options import DryRun, ProjectPath, Quiet
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.counted import counted
from agent_sandbox.engines.verbs import Down
from agent_sandbox.features.clones.running_clones import running_clones_or_none
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.protect.unprotected_writes import put_off
from agent_sandbox.features.review.unreviewed import report_unreviewed
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.project.clone_record import path_option
from agent_sandbox.project.installed import open_project, trusted_projects
from agent_sandbox.project.project import Project
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.stack.engine import ENGINE

All = Annotated[bool, Option("--all", help="Stop all your stacks on this machine.")]


def down(
    *,
    path: ProjectPath = None,
    all_: All = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> None:
    """Stop the stack and remove its containers; the agent's state and the shell history stay. Clones keep running."""
    if all_:
        _stop_all(dry_run=dry_run, quiet=quiet)
        return
    project = open_project(path, cwd=Path.cwd())
    _stop(project, dry_run=dry_run, quiet=quiet)
    if not (dry_run or quiet) and (clones := running_clones_or_none(project.root)):
        names, option = [one.name for one in clones], path_option(clones[0].root, os.environ, cwd=Path.cwd())
        say(f"its clones still run: {listed(names)}; to stop one: agent-sandbox down{option}")


def _stop(project: Project, *, dry_run: bool, quiet: bool) -> None:
    found = () if dry_run else put_off(project)
    if not (dry_run or quiet):
        report_unreviewed(project.root)
    execute(backend().plan(project, Down()), dry_run=dry_run, quiet=quiet)
    if not (dry_run or quiet):
        _report(project.name, len(found))


def _report(name: str, containers: int) -> None:
    if containers:
        say(f"stopped {name}: {counted(containers, 'container')} removed; its volumes stay")
    else:
        say(f"{name} was not running")


def _stop_all(*, dry_run: bool, quiet: bool) -> None:
    """Stop the running stacks of projects that this user trusts, and name the others, which may be anyone's."""
    projects = trusted_projects(open_store(os.environ))
    running = [stack.name for stack in driver().stacks() if stack.containers]
    own = [name for name in running if name in projects]
    for name in own:
        if not quiet:
            say((name, "title"))
        _stop(projects[name], dry_run=dry_run, quiet=quiet)
    others = [name for name in running if name not in projects]
    if others and not quiet:
        say(f"left alone, because no project that you trust has it: {listed(others)}")
    if not (running or quiet):
        say(f"no stack runs on this {ENGINE}")
