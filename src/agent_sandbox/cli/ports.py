"""`agent-sandbox ports [[HOST:]PORT]...`."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from agent_sandbox.backends.plan import HandOver
from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import Exec, Terminal
from agent_sandbox.bounded_json import read_json
from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.framework.parameters import Argument
from agent_sandbox.cli.steps.execute import backend, driver, require_agent
from agent_sandbox.cli.steps.trust_gate import open_known
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.driver.container import Container
from agent_sandbox.runtime.ports import forward as forwarding
from agent_sandbox.runtime.ports.forward import HIGHEST, Forward

Ports = Annotated[
    list[str] | None,
    Argument(help="A port of the sandbox, or PORT_HERE:PORT_INSIDE; without any, list them.", metavar="[HERE:]PORT"),
]
FORM = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})", re.ASCII)
FOLDER = Path(forwarding.__file__).parent
PYTHON = ("python3", "-I", "-c")
NONE = "nothing listens in the sandbox"


def ports(ports: Ports = None, *, path: ProjectPath = None, json: Json = False) -> int:
    """List the ports that listen in the sandbox, or make some reachable on this machine until Ctrl-C.

    They answer on 127.0.0.1 alone, with any protocol on TCP. Connections lead into the sandbox, never out of it. If a
    port is in use here, the next free one is taken.
    """
    wanted = _wanted(ports or ())
    project = open_known(path, cwd=Path.cwd())
    agent = require_agent(project)
    if not wanted:
        _list(agent, json=json)
        return DONE
    if json:
        raise UserError([Problem(where="--json", what="only lists the ports", hint="leave out --json or the ports")])
    return _forward(project, wanted)


def _wanted(texts: Sequence[str]) -> tuple[Forward, ...]:
    found = tuple(map(_parsed, texts))
    for number, one in enumerate(found):
        if one.here and one.here in {other.here for other in found[:number]}:
            raise UserError([Problem(where=str(one.here), what="this port of your machine is named twice")])
    return found


def _parsed(text: str) -> Forward:
    match = FORM.fullmatch(text)
    here, inside = (int(match[1] or match[2]), int(match[2])) if match else (0, 0)
    if not (match and 0 < inside <= HIGHEST and here <= HIGHEST):
        hint = "write a port, as in 3000, or PORT_HERE:PORT_INSIDE, as in 8080:3000"
        raise UserError([Problem(where=text, what="is not a TCP port", hint=hint)])
    return Forward(here=here, inside=inside)


def _list(agent: Container, *, json: bool) -> None:
    done = driver().run_in(agent, *PYTHON, (FOLDER / "listeners.py").read_text("utf-8"), user="")
    rows = _rows(done.out)
    if rows is None:
        raise UserError([driver().explain(done.err or done.out, doing="looking for open ports")])
    if json:
        emit_json({"ports": rows})
    elif rows:
        emit_lines(_as_text(rows))
    else:
        say(NONE)


def _rows(out: str) -> list[Mapping[str, Any]] | None:
    """Return the ports that the container reports; the agent may have forged them."""
    try:
        return [
            {"port": int(one["port"]), "addresses": list(map(str, one["addresses"])), "command": str(one["command"])}
            for one in read_json(out)
        ]
    except (ValueError, LookupError, TypeError):
        return None


def _as_text(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield styled(("PORT   PROGRAM", "title"))
    yield from (styled((f"{one['port']:<5}", "title"), f"  {one['command'] or '-'}") for one in rows)
    yield f"to open one on this machine: agent-sandbox ports {rows[0]['port']}"


def _forward(project: Project, wanted: Sequence[Forward]) -> int:
    code = (FOLDER / "relay.py").read_text("utf-8")
    plan = backend().plan(project, Exec(argv=(*PYTHON, code), terminal=Terminal.NONE))
    (step,) = (one for one in plan if isinstance(one, HandOver))
    try:
        said = asyncio.run(forwarding.forward(step.argv, step.cwd, wanted, opened=_report))
    except KeyboardInterrupt:
        say("closed")
        return DONE
    say(f"the sandbox ended the relay{f': {said}' if said else ''}: agent-sandbox status")
    return FIXABLE


def _report(one: Forward) -> None:
    say((f"http://{forwarding.ADDRESS}:{one.here}", "command"), f"  port {one.inside} of the sandbox")
