"""Execute a plan, or print it for `--dry-run`."""

import os
from pathlib import Path
from typing import NoReturn

from agent_sandbox.cli.terminal.output import emit
from agent_sandbox.cli.terminal.progress import progress
from agent_sandbox.cli.terminal.tty import at_terminal, session_environment
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.drivers import load_driver
from agent_sandbox.engines.events import Event, Tell, ignore
from agent_sandbox.engines.place import Role
from agent_sandbox.engines.plan import Plan, Planner, describe
from agent_sandbox.engines.protocol import Driver, Explain
from agent_sandbox.engines.session import run_session
from agent_sandbox.features.protect.mount_checks import LOOK, REPLACED, Inside, look_inside
from agent_sandbox.features.protect.snapshot import settings_replaced
from agent_sandbox.host.command import Command
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import path_option
from agent_sandbox.project.project import Project
from agent_sandbox.stack.containers import ENTER


def driver() -> Driver:
    """Return the driver of the engine that runs stacks."""
    return load_driver()


def backend() -> Planner:
    """Return the planner of that driver."""
    return driver().planner


def execute(  # noqa: PLR0913 - how commands differ
    plan: Plan,
    *,
    dry_run: bool = False,
    quiet: bool = False,
    lists_current: bool = False,
    explain: Explain | None = None,
    tell: Tell = ignore,
) -> None:
    """Execute the plan and show its progress, or print it. `tell` receives the events as well.

    `lists_current` also reports images that need no build.
    """
    if dry_run:
        emit(describe(plan))
        return
    with progress(quiet=quiet, lists_current=lists_current) as show:

        def both(event: Event) -> None:
            tell(event)
            show(event)

        driver().execute(plan, tell=both, explain=explain)


def run_helper(command: Command, *, doing: str) -> None:
    """Run a command to its end; raise UserError if it fails."""
    done = command.watch(on_line=lambda _line: None)
    if done.code != 0:
        raise UserError([driver().explain(done.out, doing=doing)])


def attach(
    project: Project,
    *command: str,
    container: Container | None = None,
    dry_run: bool = False,
    images: bool = False,
) -> None:
    """Run a command in the agent container on this terminal, pass signals to it, and exit with its code.

    With the `container`, the engine starts it faster. With `images`, the command gets images that the user pastes.
    """
    agent = container or Role(project=project, service="agent")
    tty, env = at_terminal(), session_environment()
    if dry_run:
        emit(str(driver().spawn(agent, ENTER, *command, stdin=True, tty=tty, env=env)))
        return
    if tty:
        from agent_sandbox.features.session.on_terminal.session import TerminalSession  # noqa: PLC0415 - only on a terminal

        code = TerminalSession(project, agent=agent, images=images).run(*command)
    else:
        code = run_session(driver(), agent, *command)
    if code:
        raise SystemExit(code)


def is_running(project: Project, service: str) -> bool:
    """Return whether a container of the project runs."""
    return any(one.state == "running" for one in driver().observe(project.name, service))


def require_made(project: Project, service: str) -> Container:
    """Return the container of a service, running or not; raise UserError if it does not exist."""
    for found in driver().observe(project.name, service):
        return found
    raise UserError([not_running(project)])


def not_running(project: Project) -> Problem:
    """Return the problem of a stack without containers, with the command that starts it."""
    hint = f"agent-sandbox up{_path_option(project)}"
    return Problem(where=project.name, what="the stack is not running", hint=hint)


def _path_option(project: Project) -> str:
    return path_option(project.root, os.environ, cwd=Path.cwd())


def require_running(project: Project, service: str) -> Container:
    """Return the running container of a service, healthy or not; raise UserError if it does not run."""
    found = require_made(project, service)
    return (
        found if found.state == "running" else _not_ready(project, found, look_inside(driver(), [found], project.root))
    )


def require_agent(project: Project) -> Container:
    """Return the agent container if it is ready; raise UserError if it is not.

    Harmless changes of git's settings are accepted and protected again.
    """
    found = require_made(project, "agent")
    replaced = settings_replaced(project.root, os.environ)
    if found.ready and not replaced:
        return found
    from agent_sandbox.features.protect import accept_harmless as harmless_settings  # noqa: PLC0415 - rarely needed

    inside = look_inside(driver(), [found], project.root)
    if inside == Inside():
        harmless_settings.report_hidden_by_start(project, replaced)
    elif inside.lost:
        inside = harmless_settings.accept_harmless(project, [found], inside)
    # The engine may not have checked again yet.
    ready = found.ready and not (inside.lost or inside.cut_off)
    return found if ready or (found.state == "running" and inside == Inside()) else _not_ready(project, found, inside)


def _not_ready(project: Project, found: Container, inside: Inside) -> NoReturn:
    option = _path_option(project)
    if inside.lost:
        raise UserError(Problem(where=path, what=REPLACED, hint=LOOK) for path in inside.lost)
    if inside.cut_off:
        raise UserError([Problem(where=project.name, what=inside.cut_off, hint=f"agent-sandbox up{option}")])
    hint = f"agent-sandbox up{option} starts it; agent-sandbox logs{option} {found.service} shows why it is not ready"
    raise UserError([Problem(where=project.name, what=f"the {found.service} is {found.condition}", hint=hint)])
