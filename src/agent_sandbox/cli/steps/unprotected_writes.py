"""Show what was written to a path while its mount was lost, and ask where that may run."""

import os
import sys
from collections.abc import Sequence

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.execute import driver
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.driver.container import Container
from agent_sandbox.runtime.protect.mount_checks import REPLACED, Inside, look_inside
from agent_sandbox.runtime.protect.snapshot import Held, leave_pending, read_held, recorded
from agent_sandbox.runtime.protect.snapshot_diff import Rewritten, rewritten, unwatched

SAME = "its content is the same as before"
SILENT = "it changed since the stack started, and the agent container does not report its mounts: check who wrote it"


def review(project: Project, found: Sequence[Container], inside: Inside) -> tuple[str, ...]:
    """Show how each path with a lost mount changed, and return these paths, including ones refused earlier.

    If the agent container does not report its mounts, every changed path counts as lost.

    The agent is stopped first, because it could write meanwhile. Raises UserError if a change may run something and
    the user does not confirm it.
    """
    then = recorded(project.root, os.environ)
    changed, paths = _to_be_seen(project, found, inside, then)
    if not paths:
        return ()
    # Pending until all of it is protected again: a second `up` must ask again.
    leave_pending(project.root, os.environ, then, paths)
    now = read_held(project.root, paths)
    differences = [rewritten(path, then, now) for path in paths]
    for one in differences:
        say(f"{one.path}: {SILENT if one.path in changed else REPLACED}{'' if one.lines else f'; {SAME}'}")
        for line in one.lines:
            say(f"  {printable(line)}")
    _require_confirmation(project, [one for one in differences if one.runs])
    return paths


def put_off(project: Project) -> None:
    """Record the lost mounts before the containers, which alone know them, are removed."""
    found, then = driver().observe(project.name), recorded(project.root, os.environ)
    _, paths = _to_be_seen(project, found, look_inside(driver(), found), then)
    if paths:
        leave_pending(project.root, os.environ, then, paths)


def _to_be_seen(
    project: Project, found: Sequence[Container], inside: Inside, then: Held
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Stop the agent; return the paths that changed if it reported no mounts, and all paths to show."""
    expected = {*inside.lost, *then.pending}
    if expected or inside.silent:
        _stop(found)
    changed = unwatched(project.root, then) if inside.silent else ()
    return changed, tuple(sorted(expected.union(changed)))


def _stop(found: Sequence[Container]) -> None:
    for container in found:
        if container.service == "agent" and container.state == "running":
            driver().stop(container, doing="stopping the agent")


def _require_confirmation(project: Project, doubtful: Sequence[Rewritten]) -> None:
    if not doubtful:
        return
    runs = printable(", ".join(why for one in doubtful for why in one.runs))
    if not sys.stdin.isatty():
        what = f"this may run on your machine: {runs}; the agent was stopped, and nothing was started"
        hint = "fix it, or run agent-sandbox up at a terminal and confirm"
        raise UserError([Problem(where=str(project.root), what=what, hint=hint)])
    sys.stderr.write(f"This may run on your machine: {runs}. Did you, or one of your tools, write it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        what = "you did not confirm it, so the agent stays stopped"
        raise UserError([Problem(where=str(project.root), what=what, hint="fix the file, then run agent-sandbox up")])
