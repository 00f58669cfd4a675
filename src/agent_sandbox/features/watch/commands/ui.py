"""`agent-sandbox ui`."""

import signal
import sys
import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from typing import Annotated

from typer import Option

from agent_sandbox.cli.framework.errors import INTERRUPTED
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import emit, say
from agent_sandbox.features.watch.commands.watch import AllOption, AskOption
from agent_sandbox.features.watch.watching.watched_stacks import chosen_stacks
from agent_sandbox.problems import Problem, UserError

PACKAGES = ("starlette", "uvicorn")
OpenOption = Annotated[bool, Option("--open", help="Also open the address in your browser.")]


def ui(
    *,
    path: ProjectPath = None,
    all_stacks: AllOption = False,
    ask: AskOption = False,
    open_browser: OpenOption = False,
) -> int:
    """Show requests in a browser as the proxy decides them, and answer those that wait for a person (`settings.ask`).

    It shows the project and its running clones. The page is on 127.0.0.1, and the printed address works once. Install
    agent-sandbox with the extra `ui` for this.
    """
    first, find = chosen_stacks(path, all_stacks=all_stacks)
    if not all(map(find_spec, PACKAGES)):
        what = f"the packages {' and '.join(PACKAGES)} are not installed"
        hint = "install agent-sandbox with the extra `ui`; agent-sandbox watch shows the same in a terminal"
        raise UserError([Problem(where="agent-sandbox ui", what=what, hint=hint)])
    from agent_sandbox.features.watch.page.serving import serve  # noqa: PLC0415 - needs the packages

    shown = first[0].name if len(first) == 1 else f"{len(first)} stacks"
    say(f"{shown}: open this address in a browser on this machine; it works once, within ten minutes")

    def offer(address: str) -> None:
        emit(address)
        sys.stdout.flush()
        if open_browser:
            webbrowser.open(address)

    say("Enter prints another address, Ctrl-C ends the page")
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # with `&`, a look at the terminal must not stop it
    with suppress(KeyboardInterrupt):
        serve(first, find, asks=ask, on_address=offer, again=sys.stdin)
    return INTERRUPTED
