"""`agent-sandbox verify`."""

from pathlib import Path
from typing import Annotated

from agent_sandbox.cli.carry_out import require_running
from agent_sandbox.cli.errors import DONE, MENDABLE
from agent_sandbox.cli.options import Json, ProjectPath
from agent_sandbox.cli.output import emit
from agent_sandbox.cli.parameters import Option
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.engine import ask
from agent_sandbox.runtime.faults import problem_of
from agent_sandbox.runtime.installed import open_project
from agent_sandbox.stack.services.agent import PROBE

Full = Annotated[bool, Option(help="Try everything; otherwise what is tried at every start.")]
Capture = Annotated[
    str, Option(help="A listener of yours that nothing inside should reach: it is tried too.", metavar="HOST:PORT")
]
CODES = {0: DONE, 1: MENDABLE}


def verify(*, path: ProjectPath = None, full: Full = False, capture: Capture = "", json: Json = False) -> int:
    """Try every way out of the running agent's container, and print what happened; exit 1 when something got out.

    Nothing is sent to anybody: what is tried leads to the proxy, or to addresses and names that are nobody's.
    """
    project = open_project(path, cwd=Path.cwd())
    agent = require_running(project, "agent")
    options = (*(("--full",) if full else ()), *(("--json",) if json else ()))
    done = ask("exec", agent.id, PROBE, *options, *(("--capture", capture) if capture else ()))
    if done.code not in CODES:
        raise UserError([problem_of(done.err or done.out, doing="trying the walls")])
    emit(done.out.rstrip("\n"))
    return CODES[done.code]
