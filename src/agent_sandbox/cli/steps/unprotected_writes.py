"""Before a path whose mount ended is protected again: what was written to it since, and a yes where that may run."""

import os
import sys
from collections.abc import Sequence

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.compose.containers import Container, containers
from agent_sandbox.runtime.compose.engine import answer
from agent_sandbox.runtime.protect.mount_checks import REPLACED, Inside, look_inside
from agent_sandbox.runtime.protect.snapshot import Held, leave_pending, read_held, recorded
from agent_sandbox.runtime.protect.snapshot_diff import Rewritten, rewritten, unwatched

SAME = "it holds what it held before"
UNTOLD = "it is not what it was when the stack started, and the agent's container tells of no mount: look who wrote it"


def review(project: Project, found: Sequence[Container], inside: Inside) -> tuple[str, ...]:
    """Show what each lost path holds now that it did not before, and return them, with those of an earlier no.

    Where the agent's container does not tell, all that has changed since is taken for lost.

    The agent is stopped first: it could write while it is looked at. Raises UserError where something may run and
    nobody says yes.
    """
    then = recorded(project.root, os.environ)
    changed, paths = _to_be_seen(project, found, inside, then)
    if not paths:
        return ()
    # Until all of it is protected again: a second `up` is no yes.
    leave_pending(project.root, os.environ, then, paths)
    now = read_held(project.root, paths)
    differences = [rewritten(path, then, now) for path in paths]
    for one in differences:
        say(f"{one.path}: {UNTOLD if one.path in changed else REPLACED}{'' if one.lines else f'; {SAME}'}")
        for line in one.lines:
            say(f"  {printable(line)}")
    _require_yes(project, [one for one in differences if one.runs])
    return paths


def put_off(project: Project) -> None:
    """Before the containers go, which alone know what is lost: have the next start show it."""
    found, then = containers(project.name), recorded(project.root, os.environ)
    _, paths = _to_be_seen(project, found, look_inside(found), then)
    if paths:
        leave_pending(project.root, os.environ, then, paths)


def _to_be_seen(
    project: Project, found: Sequence[Container], inside: Inside, then: Held
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what has changed, where nobody can say what is lost, and all that is to be shown; stop the agent first."""
    expected = {*inside.lost, *then.pending}
    if expected or inside.silent:
        _stop(found)
    changed = unwatched(project.root, then) if inside.silent else ()
    return changed, tuple(sorted(expected.union(changed)))


def _stop(found: Sequence[Container]) -> None:
    for container in found:
        if container.service == "agent" and container.state == "running":
            answer("stop", "--time", "2", container.id, doing="stopping the agent")


def _require_yes(project: Project, doubtful: Sequence[Rewritten]) -> None:
    if not doubtful:
        return
    runs = printable(", ".join(why for one in doubtful for why in one.runs))
    if not sys.stdin.isatty():
        what = f"this may run on your machine: {runs}; the agent is stopped, and nothing was started"
        hint = "mend it, or say yes at a terminal: agent-sandbox up"
        raise UserError([Problem(where=str(project.root), what=what, hint=hint)])
    sys.stderr.write(f"This may run on your machine: {runs}. Did you, or a tool of yours, write it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        what = "you have not said yes to it, so the agent stays stopped"
        raise UserError([Problem(where=str(project.root), what=what, hint="mend the file; then: agent-sandbox up")])
