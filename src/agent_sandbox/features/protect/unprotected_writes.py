"""Show what was written to a path while its mount was lost, and ask where that may run."""

import os
import sys
from collections.abc import Sequence

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.verbs import Stop
from agent_sandbox.features.protect.accept_harmless import protect_again, read_settings
from agent_sandbox.features.protect.mount_checks import REPLACED, Inside, look_inside
from agent_sandbox.features.protect.snapshot import Held, is_settings, leave_pending, read_held, recorded
from agent_sandbox.features.protect.snapshot_diff import Rewritten, rewritten, unwatched
from agent_sandbox.features.stack.execute import backend, driver
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import DOTENV

SAME = "its content is the same as before"
UNHIDDEN = "replaced on the host machine, so the agent could read it"
SILENT = "it changed since the stack started, and the agent container does not report its mounts: check who wrote it"


def review(project: Project, found: Sequence[Container], inside: Inside) -> tuple[str, ...]:
    """Show how each path with a lost mount changed, and return those that need a new agent container.

    These include paths refused earlier. If the agent container does not report its mounts, every changed path counts
    as lost. Raises UserError if a change may run something and the user does not confirm it.
    """
    then = recorded(project.root, os.environ)
    left = _review_running(project, found, inside, then)
    return _review_stopped(project, found, inside, then) if left is None else left


def _review_running(project: Project, found: Sequence[Container], inside: Inside, then: Held) -> tuple[str, ...] | None:
    """Review git's settings and protect them again while the agent works on; return None if that cannot be."""
    if not inside.lost or then.pending or not all(map(is_settings, inside.lost)):
        return None
    now = read_settings(project, inside.lost)
    differences = [rewritten(path, then, now) for path in inside.lost]
    if any(one.runs for one in differences) and not sys.stdin.isatty():
        return None
    leave_pending(project.root, os.environ, then, inside.lost)
    _show(differences)
    try:
        _require_confirmation(project, differences)
    except UserError:
        _stop(project, found)
        raise
    if protect_again(project, found, inside, then, now) == Inside():
        return ()
    _stop(project, found)
    # What was shown is what will be protected, or it is shown again.
    return inside.lost if read_settings(project, inside.lost) == now else None


def _review_stopped(project: Project, found: Sequence[Container], inside: Inside, then: Held) -> tuple[str, ...]:
    """Review after stopping the agent, because it could write meanwhile."""
    changed, paths = _to_be_seen(project, found, inside, then)
    if not paths:
        return ()
    # Pending until all of it is protected again: a second `up` must ask again.
    leave_pending(project.root, os.environ, then, paths)
    now, masked = read_held(project.root, paths), read_facts(project.root).masked - {DOTENV}
    for path in masked.intersection(paths):
        say(f"{path}: {UNHIDDEN}")
    differences = [rewritten(path, then, now) for path in paths if path not in masked]
    _show(differences, changed)
    _require_confirmation(project, differences)
    return paths


def put_off(project: Project) -> Sequence[Container]:
    """Record the lost mounts before the containers, which alone know them, are removed; return the containers."""
    found, then = driver().observe(project.name), recorded(project.root, os.environ)
    _, paths = _to_be_seen(project, found, look_inside(driver(), found, project.root), then)
    if paths:
        leave_pending(project.root, os.environ, then, paths)
    return found


def _to_be_seen(
    project: Project, found: Sequence[Container], inside: Inside, then: Held
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Stop the agent; return the paths that changed if it reported no mounts, and all paths to show."""
    expected = {*inside.lost, *then.pending}
    if expected or inside.silent:
        _stop(project, found)
    changed = unwatched(project.root, then) if inside.silent else ()
    return changed, tuple(sorted(expected.union(changed)))


def _show(differences: Sequence[Rewritten], changed: Sequence[str] = ()) -> None:
    for one in differences:
        say(f"{one.path}: {SILENT if one.path in changed else REPLACED}{'' if one.lines else f'; {SAME}'}")
        for line in one.lines:
            say(f"  {printable(line)}")


def _stop(project: Project, found: Sequence[Container]) -> None:
    for container in found:
        if container.service == "agent" and container.state == "running":
            driver().execute(backend().plan(project, Stop(service="agent", container=container.id)))


def _require_confirmation(project: Project, differences: Sequence[Rewritten]) -> None:
    runs = printable(", ".join(why for one in differences for why in one.runs))
    if not runs:
        return
    if not sys.stdin.isatty():
        what = f"this may run on your machine: {runs}; the agent was stopped, and nothing was started"
        hint = "fix it, or run agent-sandbox up at a terminal and confirm"
        raise UserError([Problem(where=str(project.root), what=what, hint=hint)])
    if not agrees(f"This may run on your machine: {runs}. Did you, or one of your tools, write it?"):
        what = "you did not confirm it, so the agent stays stopped"
        raise UserError([Problem(where=str(project.root), what=what, hint="fix the file, then run agent-sandbox up")])
