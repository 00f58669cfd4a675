"""`agent-sandbox proxy run`: the proxy's own program, in our place."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.process import become

PolicyFile = Annotated[Path, typer.Option("--policy", help="The policy to decide by.", metavar="FILE")]
Layer = Annotated[
    list[str] | None,
    typer.Option(
        "--layer",
        help="A layer beside the policy, `user` or `organisation`; lowest first. May be repeated.",
        metavar="NAME=FILE",
    ),
]
Listen = Annotated[str, typer.Option("--listen", help="Where to listen; port 0 takes a free one.", metavar="ADDR:PORT")]
State = Annotated[Path, typer.Option("--state", help="Where the CA, the log and the socket are kept.", metavar="DIR")]
UpstreamCa = Annotated[
    Path | None, typer.Option("--upstream-ca", help="A CA to trust besides the usual ones.", metavar="PEM")
]
Resolve = Annotated[
    list[str] | None,
    typer.Option(
        "--resolve",
        help="For test stands: where that name and port lead, a private address too. May be repeated.",
        metavar="HOST:PORT:ADDR:PORT",
    ),
]


def run(  # noqa: PLR0913 - each is an option
    *,
    policy: PolicyFile,
    listen: Listen,
    state: State,
    layer: Layer = None,
    upstream_ca: UpstreamCa = None,
    resolve: Resolve = None,
) -> None:
    """Run the very proxy of a stack on this machine, in the foreground. It prints one line of JSON when it is ready."""
    if find_spec("mitmproxy") is None:
        what = "the proxy needs mitmproxy, which is not installed beside this program"
        hint = "in a checkout of agent-sandbox: pipx install --force '.[proxy]'"
        raise UserError([Problem(where="agent-sandbox[proxy]", what=what, hint=hint)])
    ca = ("--upstream-ca", str(upstream_ca)) if upstream_ca else ()
    layers = tuple(word for entry in layer or () for word in ("--layer", entry))
    resolved = tuple(word for entry in resolve or () for word in ("--resolve", entry))
    options = ("--policy", str(policy), "--listen", listen, "--state", str(state), *layers, *ca, *resolved)
    become((sys.executable, "-P", "-m", "agent_sandbox.proxy", "run", *options))
