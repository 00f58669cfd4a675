"""`agent-sandbox ports [[HOST:]PORT]...`."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import to_builtins
from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.engines.container import Container
from agent_sandbox.features.ports import forward as forwarding
from agent_sandbox.features.ports.forward import Forward
from agent_sandbox.features.ports.live_ports import (
    PYTHON,
    code_of,
    listeners_in,
    parsed_port,
    refused,
    relay_in,
    report,
    talk,
)
from agent_sandbox.features.ports.reported import Listening, parse_report
from agent_sandbox.features.stack.execute import driver, require_agent
from agent_sandbox.features.trust.trust_gate import open_known
from agent_sandbox.problems import Problem, UserError

Ports = Annotated[
    list[str] | None,
    Argument(
        help="A port of the sandbox, PORT_HERE:PORT_INSIDE, or PORT_HERE:SERVICE:PORT for a service beside it;"
        " without any, list them.",
        metavar="[HERE:[SERVICE:]]PORT",
    ),
]
Watch = Annotated[bool, Option(help="Report each new port, and open and close ports while it runs.")]
NONE = "nothing listens in the sandbox"


def ports(ports: Ports = None, *, path: ProjectPath = None, watch: Watch = False, json: Json = False) -> int:
    """List the ports that listen in the sandbox, or make some reachable on this machine until Ctrl-C.

    They answer on 127.0.0.1 and ::1 alone, with any protocol on TCP. Connections lead into the sandbox, never out of
    it. If a port is in use here, the next free one is taken. At a terminal, programs that start to listen meanwhile are
    reported, and you can type ports to open and close.
    """
    wanted = _wanted(ports or ())
    if watch and not sys.stdin.isatty():
        raise UserError([Problem(where="--watch", what="needs a terminal", hint="name the ports to open")])
    if json and (wanted or watch):
        raise UserError([Problem(where="--json", what="only lists the ports", hint="leave out --json or the ports")])
    project = open_known(path, cwd=Path.cwd())
    agent = require_agent(project)
    if wanted or watch:
        return _forward(agent, wanted)
    _list(agent, json=json)
    return DONE


def _wanted(texts: Sequence[str]) -> tuple[Forward, ...]:
    found = tuple(map(parsed_port, texts))
    for number, one in enumerate(found):
        if one.here and one.here in {other.here for other in found[:number]}:
            raise UserError([Problem(where=str(one.here), what="this port of your machine is named twice")])
    return found


def _list(agent: Container, *, json: bool) -> None:
    done = driver().spawn(agent, *PYTHON, code_of("listeners.py")).capture()
    found = parse_report(done.out)
    if found is None:
        raise UserError([driver().explain(done.last_line, doing="looking for open ports")])
    if json:
        emit_json({"ports": to_builtins(found)})
    elif found:
        emit_lines(_as_text(found))
    else:
        say(NONE)


def _as_text(found: Sequence[Listening]) -> Iterator[str]:
    yield styled(("PORT   PROGRAM", "title"))
    yield from (styled((f"{one.port:<5}", "title"), f"  {one.command or '-'}") for one in found)
    yield f"to open one on this machine: agent-sandbox ports {found[0].port}"


def _forward(agent: Container, wanted: Sequence[Forward]) -> int:
    live = partial(talk, watching=listeners_in(agent)) if sys.stdin.isatty() else None
    try:
        said = asyncio.run(forwarding.forward(relay_in(agent), wanted, opened=report, refused=refused, live=live))
    except KeyboardInterrupt:
        say("closed")
        return DONE
    say(f"the sandbox ended the relay{f': {said}' if said else ''}: agent-sandbox status")
    return FIXABLE
