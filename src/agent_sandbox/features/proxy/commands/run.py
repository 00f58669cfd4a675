"""`agent-sandbox proxy run`: replace this process with the proxy."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.host.process import become
from agent_sandbox.problems import Problem, UserError

PolicyFile = Annotated[Path, Option(help="The policy file.", metavar="FILE")]
Layer = Annotated[
    list[str] | None,
    Option(help="Another layer, `user` or `organisation`, lowest first; may be repeated.", metavar="NAME=FILE"),
]
Listen = Annotated[str, Option(help="The address to listen on; port 0 picks a free port.", metavar="ADDR:PORT")]
State = Annotated[Path, Option(help="The directory for the CA, the audit log and the control socket.", metavar="DIR")]
UpstreamCa = Annotated[Path | None, Option(help="A CA to trust in addition to the system's.", metavar="PEM")]
Resolve = Annotated[
    list[str] | None,
    Option(
        help="For tests: connect to this address, even a private one, for this host and port; may be repeated.",
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
    """Run the proxy on this machine, in the foreground. It prints one line of JSON when it is ready."""
    if find_spec("mitmproxy") is None:
        what = "the proxy needs mitmproxy, which is not installed"
        hint = "in a checkout of agent-sandbox: pipx install --force '.[proxy]'"
        raise UserError([Problem(where="agent-sandbox-cli[proxy]", what=what, hint=hint)])
    ca = ("--upstream-ca", str(upstream_ca)) if upstream_ca else ()
    layers = tuple(word for entry in layer or () for word in ("--layer", entry))
    resolved = tuple(word for entry in resolve or () for word in ("--resolve", entry))
    options = ("--policy", str(policy), "--listen", listen, "--state", str(state), *layers, *ca, *resolved)
    become((sys.executable, "-P", "-m", "agent_sandbox.proxy", "run", *options))
