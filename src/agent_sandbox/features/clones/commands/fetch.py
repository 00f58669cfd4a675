"""`agent-sandbox fetch [NAME]`."""

from collections.abc import Sequence
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE, INTERRUPTED
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.features.clones.clone_fetch import fetch_clone, fetched_lines
from agent_sandbox.features.clones.clones import chosen_clones
from agent_sandbox.features.clones.fetch import MOST_BYTES
from agent_sandbox.features.clones.fetched import Fetched, as_json
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.stack.limits import LIMITS

Name = Annotated[str, Argument(help="The clone; by default all clones of the project.")]
Most = Annotated[str, Option(help="Fetch at most this much from each clone; by default 2g.", metavar="SIZE")]


def fetch(name: Name = "", *, path: ProjectPath = None, most: Most = "", json: Json = False) -> int:
    """Bring the commits of a clone into the project's repository, as `box/NAME/BRANCH`.

    Its stashes come as `box/NAME/stash-COMMIT`. The objects are checked, and the clone's settings, hooks and attributes
    have no effect here. Uncommitted files stay in the clone and are listed. Works whether the clone's stack runs or
    not. Exits with 1 if a branch was refused, or a clone could not be read; all others are fetched.
    """
    size = LIMITS["disk"].read(most) if most else MOST_BYTES
    if size is None:
        raise UserError([Problem(where="--most", what=f"`{most}` is not a {LIMITS['disk'].form}")])
    results: list[Fetched] = []
    problems: list[Problem] = []
    for clone in chosen_clones(name, path):
        try:
            results.append(fetch_clone(clone, most=size))
        except UserError as error:  # the other clones are still fetched
            problems += error.problems
            continue
        except KeyboardInterrupt:
            say(f"interrupted: the clone {clone.name} is unchanged; run the command again to fetch the rest")
            if json:
                _emit(results)
            return INTERRUPTED
        if not json:
            emit_lines(fetched_lines(results[-1]))
    if json:
        _emit(results)
    if problems:
        raise UserError(problems)
    return FIXABLE if any(one.status.listing.refused for one in results) else DONE


def _emit(results: Sequence[Fetched]) -> None:
    emit_json({"clones": [as_json(one) for one in results]})
