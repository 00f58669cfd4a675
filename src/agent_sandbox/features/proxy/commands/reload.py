"""`agent-sandbox proxy reload`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath, Yes
from agent_sandbox.cli.terminal.output import emit_json
from agent_sandbox.features.proxy.control import ask_socket
from agent_sandbox.features.proxy.reload_policy import reload_stack, report, require_loaded

Control = Annotated[
    Path | None,
    Option(help="The control socket of a proxy that `proxy run` started.", metavar="SOCK"),
]


def reload(*, path: ProjectPath = None, control: Control = None, json: Json = False, yes: Yes = "") -> int:
    """Reload the policy into the running proxy. An invalid policy changes nothing; the command reports its problems.

    The running clones of the project reload it too. A clone whose policy was edited keeps its own. Exits with 1 if a
    clone did not load it.
    """
    answer = require_loaded(ask_socket(control, "reload")) if control else reload_stack(path, yes=yes)
    if json:
        emit_json(answer)
    else:
        report(answer)
    return DONE if all(one["ok"] for one in answer.get("clones", ())) else FIXABLE
